"""``safelight skills --decisions``: scores small decisions held out of training, and the calibration of their answers.

They are about texts, or with ``--drawings`` about drawings.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from app.cli import running, skills_drawings, terminal
from engine import DECIDER, SIGHT, SafelightError, SlotsRead
from engine.pictures import Picture
from engine.service.deciding import Deciding
from engine.tasks.decisions import examples
from engine.tasks.decisions.answers import LabelRead
from engine.tasks.decisions.calibration import LEAST_EXAMPLES, LabelledRead, Reliability, fit_temperature, reliability
from engine.tasks.decisions.questions import OneOf, Question, YesNo

if TYPE_CHECKING:
    from engine import Model

Example: TypeAlias = tuple[examples.DecisionExample, tuple[Picture, ...]]
FORMS: dict[str, tuple[examples.Form, ...]] = {"single": ("brief", "single"), "joint": ("pair", "joint")}


@dataclass
class Scored:
    """The reads of questions asked singly or jointly, each with its groups: its family and its kind of question."""

    reads: list[tuple[tuple[str, str], LabelledRead]] = field(default_factory=list)

    def hits(self, group: str) -> tuple[int, int]:
        """Counts the right answers of a group, and all of them."""
        own = [one for groups, one in self.reads if group in groups]
        return sum(_is_right(one) for one in own), len(own)

    def reliability(self, temperature: float) -> Reliability:
        """Returns the reliability of all answers at a temperature."""
        return reliability([one for _, one in self.reads], temperature)

    @property
    def label_mass(self) -> float:
        """Returns the mean probability of all labels together."""
        return sum(read.label_mass for _, one in self.reads for read in one.reads) / max(1, len(self.reads))


def run(args: argparse.Namespace) -> int:
    """Asks held-out questions singly and jointly; fits the temperature to others, of the kinds that training had.

    Raises:
        SafelightError: too few are asked.
    """
    if args.count < LEAST_EXAMPLES:
        raise SafelightError(f"a temperature is fitted to at least {LEAST_EXAMPLES} decisions; give a larger --count")
    model, seed = running.load(args, SIGHT if args.drawings else DECIDER), running.seed(args)
    examples_of = skills_drawings.decisions if args.drawings else _texts
    scores: dict[str, Scored] = {}
    try:
        with terminal.progress("Deciding") as show:
            total, others = args.count * (len(FORMS) + 1), list[LabelledRead]()
            for mode in FORMS:
                done, scored = args.count * len(scores), Scored()
                scores[mode] = scored
                asked = examples_of(random.Random(f"{seed} {mode}"), "test", [mode])
                for family, question, one in _read(model, asked, "test", args.count):
                    scored.reads.append(((family, _kind(question)), one))
                    show((done + len(scored.reads)) / total, f"Deciding, {mode}")
            asked = examples_of(random.Random(f"{seed} temperature"), "train", list(FORMS))
            for _, _, one in _read(model, asked, "train", args.count):
                others.append(one)
                show((total - args.count + len(others)) / total, "Deciding others, for the temperature")
    except KeyboardInterrupt:
        terminal.say("stopped; a temperature is fitted to all examples, so nothing is shown")
        return 130
    _show(args, scores, fit_temperature(others), running.model_names(model), seed)
    return 0


def _texts(rng: random.Random, split: examples.Split, modes: Sequence[str]) -> Iterator[Example]:
    """Yields decisions about texts without end."""
    for form in itertools.cycle([form for mode in modes for form in FORMS[mode]]):
        yield examples.sample(rng, split, form), ()


def _read(
    model: Model, asked: Iterator[Example], split: examples.Split, count: int
) -> Iterator[tuple[str, Question, LabelledRead]]:
    """Yields family, question and read of at least ``count`` answers; in the test split only of held-out questions."""
    from engine.decoding.reading import read  # imports torch

    deciding = Deciding.from_tokenizer(model.tokenizer.encode, model.generation_defaults, model.config.canvas_length)
    budget, cache, answered = model.generation_defaults.image_tokens, model.new_cache(), 0
    for example, pictures in asked:
        if answered >= count:
            return
        messages = deciding.messages(example.decision, pictures)
        prompt = model.with_images(model.chat_ids(messages, image_tokens=budget), messages, pictures, budget)
        events = read(model, prompt, deciding.layout(example.decision), seed=answered, cache=cache)
        (found,) = [event for event in events if isinstance(event, SlotsRead)]
        for place, question in enumerate(example.decision.questions):
            if example.held_out[place] == (split == "test"):
                own = LabelRead(tuple(found.logprobs[place].tolist()), found.argmax_is_label[place])
                yield example.families[place], question, LabelledRead((own,), example.answers[place])
                answered += 1


def _show(
    args: argparse.Namespace, scores: dict[str, Scored], temperature: float, names: dict[str, str], seed: int
) -> None:
    if args.json:
        found = {mode: _record(scored, temperature) for mode, scored in scores.items()}
        running.print_json({**found, "temperature": temperature, "seed": seed, **names})
        return
    about = " about drawings" if args.drawings else ""
    heading = f"{' + '.join(names.values())}, held-out decisions{about}, seed {seed}"
    table = terminal.table(
        heading, "questions", *(f"{mode}, {what}" for mode in scores for what in ("right", "of", "rate"))
    )
    for group in _groups(scores):
        row = [scored.hits(group) for scored in scores.values()]
        table.add_row(group.capitalize(), *(cell for right, count in row for cell in _cells(right, count)))
    totals = [(scored.reliability(1.0).accuracy, len(scored.reads)) for scored in scores.values()]
    table.add_row("All", *(cell for share, count in totals for cell in _cells(round(share * count), count)))
    terminal.console(sys.stdout).print(table)
    trust = terminal.table(
        f"At the temperature {temperature:.2f}, fitted to others",
        "asked", "on the options", "Brier before", "Brier after", "ECE before", "ECE after",
    )  # fmt: skip
    for mode, scored in scores.items():
        before, after = scored.reliability(1.0), scored.reliability(temperature)
        numbers = (scored.label_mass, before.brier, after.brier, before.ece, after.ece)
        trust.add_row(mode, *(f"{number:.3f}" for number in numbers))
    terminal.console(sys.stdout).print(trust)


def _record(scored: Scored, temperature: float) -> dict[str, Any]:
    """Returns the JSON object of the questions asked in one mode."""
    before, after = scored.reliability(1.0), scored.reliability(temperature)
    groups = {}
    for group in _groups({"": scored}):
        right, count = scored.hits(group)
        groups[group] = {"right": right, "count": count}
    return {
        "groups": groups,
        "accuracy": before.accuracy,
        "count": before.examples,
        "label_mass": scored.label_mass,
        "brier_before": before.brier,
        "brier_after": after.brier,
        "ece_before": before.ece,
        "ece_after": after.ece,
    }


def _groups(scores: dict[str, Scored]) -> list[str]:
    """Lists the families, then the kinds of questions."""
    pairs = [groups for scored in scores.values() for groups, _ in scored.reads]
    return [*sorted({family for family, _ in pairs}), *sorted({kind for _, kind in pairs})]


def _cells(right: int, count: int) -> tuple[str, str, str]:
    return str(right), str(count), f"{100 * right / max(1, count):.1f} %"


def _is_right(one: LabelledRead) -> bool:
    shares = one.probabilities(1.0)
    return shares.index(max(shares)) == one.right


def _kind(question: Question) -> str:
    return "yes or no" if isinstance(question, YesNo) else "choice" if isinstance(question, OneOf) else "score"
