"""``safelight skills --decisions``: scores small decisions held out of training, and how far to trust their answers.

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
from engine import DECIDER, SIGHT, SlotsRead
from engine.pictures import Picture
from engine.service.deciding import Deciding
from engine.tasks.decisions import examples
from engine.tasks.decisions.answers import LabelRead
from engine.tasks.decisions.questions import OneOf, Question, YesNo
from engine.tasks.decisions.reliability import Reliability, measure

if TYPE_CHECKING:
    from engine import Model

Example: TypeAlias = tuple[examples.DecisionExample, tuple[Picture, ...]]
FORMS: dict[str, tuple[examples.Form, ...]] = {"single": ("brief", "single"), "joint": ("pair", "joint")}


@dataclass
class Scored:
    """The reads of questions asked singly or jointly.

    Each has its groups, which are its family and its kind of question, and the index of the right option.
    """

    reads: list[tuple[tuple[str, str], LabelRead, int]] = field(default_factory=list)

    def hits(self, group: str) -> tuple[int, int]:
        """Counts the right answers of a group, and all of them."""
        own = [_is_right(read, right) for groups, read, right in self.reads if group in groups]
        return sum(own), len(own)

    @property
    def reliability(self) -> Reliability:
        """Returns the reliability of all answers."""
        return measure([read.probabilities() for _, read, _ in self.reads], [right for _, _, right in self.reads])

    @property
    def label_mass(self) -> float:
        """Returns the mean probability of all labels together."""
        return sum(read.label_mass for _, read, _ in self.reads) / max(1, len(self.reads))


def run(args: argparse.Namespace) -> int:
    """Asks held-out questions singly and jointly."""
    model, seed = running.load(args, SIGHT if args.drawings else DECIDER), running.seed(args)
    examples_of = skills_drawings.decisions if args.drawings else _texts
    scores: dict[str, Scored] = {}
    try:
        with terminal.progress("Deciding") as show:
            for mode in FORMS:
                done, scored = args.count * len(scores), Scored()
                scores[mode] = scored
                asked = examples_of(random.Random(f"{seed} {mode}"), [mode])
                for family, question, read, right in _read(model, asked, args.count):
                    scored.reads.append(((family, _kind(question)), read, right))
                    show((done + len(scored.reads)) / (args.count * len(FORMS)), f"Deciding, {mode}")
    except KeyboardInterrupt:
        terminal.say("stopped; nothing is shown, as not all were asked")
        return 130
    _show(args, scores, running.model_names(model), seed)
    return 0


def _texts(rng: random.Random, modes: Sequence[str]) -> Iterator[Example]:
    """Yields decisions about texts without end."""
    for form in itertools.cycle([form for mode in modes for form in FORMS[mode]]):
        yield examples.sample(rng, "test", form), ()


def _read(model: Model, asked: Iterator[Example], count: int) -> Iterator[tuple[str, Question, LabelRead, int]]:
    """Yields family, question, read and right option of at least ``count`` answers to held-out questions."""
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
            if example.held_out[place]:
                own = LabelRead(tuple(found.logprobs[place].tolist()), found.argmax_is_label[place])
                yield example.families[place], question, own, example.answers[place]
                answered += 1


def _show(args: argparse.Namespace, scores: dict[str, Scored], names: dict[str, str], seed: int) -> None:
    if args.json:
        found = {mode: _record(scored) for mode, scored in scores.items()}
        running.print_json({**found, "seed": seed, **names})
        return
    about = " about drawings" if args.drawings else ""
    heading = f"{' + '.join(names.values())}, held-out decisions{about}, seed {seed}"
    table = terminal.table(
        heading, "questions", *(f"{mode}, {what}" for mode in scores for what in ("right", "of", "rate"))
    )
    for group in _groups(scores):
        row = [scored.hits(group) for scored in scores.values()]
        table.add_row(group.capitalize(), *(cell for right, count in row for cell in _cells(right, count)))
    totals = [(scored.reliability.accuracy, len(scored.reads)) for scored in scores.values()]
    table.add_row("All", *(cell for share, count in totals for cell in _cells(round(share * count), count)))
    terminal.console(sys.stdout).print(table)
    trust = terminal.table("How far to trust the probabilities", "asked", "on the options", "Brier", "ECE")
    for mode, scored in scores.items():
        numbers = (scored.label_mass, scored.reliability.brier, scored.reliability.ece)
        trust.add_row(mode, *(f"{number:.3f}" for number in numbers))
    terminal.console(sys.stdout).print(trust)


def _record(scored: Scored) -> dict[str, Any]:
    """Returns the JSON object of the questions asked in one mode."""
    found, groups = scored.reliability, {}
    for group in _groups({"": scored}):
        right, count = scored.hits(group)
        groups[group] = {"right": right, "count": count}
    return {
        "groups": groups,
        "accuracy": found.accuracy,
        "count": found.examples,
        "label_mass": scored.label_mass,
        "brier": found.brier,
        "ece": found.ece,
    }


def _groups(scores: dict[str, Scored]) -> list[str]:
    """Lists the families, then the kinds of questions."""
    pairs = [groups for scored in scores.values() for groups, _, _ in scored.reads]
    return [*sorted({family for family, _ in pairs}), *sorted({kind for _, kind in pairs})]


def _cells(right: int, count: int) -> tuple[str, str, str]:
    return str(right), str(count), f"{100 * right / max(1, count):.1f} %"


def _is_right(read: LabelRead, right: int) -> bool:
    return read.logprobs.index(max(read.logprobs)) == right


def _kind(question: Question) -> str:
    return "yes or no" if isinstance(question, YesNo) else "choice" if isinstance(question, OneOf) else "score"
