"""``safelight skills --drawings``: scores questions about drawings held out of training. Knows no torch."""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.cli import options, running, terminal
from app.cli.skill_score import SkillScore, show
from engine import SIGHT, GenerationConfig
from engine.pictures import Picture
from engine.tasks.decisions.examples import DecisionExample
from engine.tasks.decisions.questions import Decision
from engine.text.message import message_of

if TYPE_CHECKING:
    from engine import Model


def run(args: argparse.Namespace) -> int:
    """Asks one question about each of ``--count`` drawings of each kind."""
    from engine.tasks import drawings  # imports Pillow

    changes = options.sampler_changes(args)
    model, seed = running.load(args, SIGHT), running.seed(args)
    config = options.settings(model.generation_defaults, changes)
    scores: dict[str, SkillScore] = {}
    stopped = False
    with terminal.progress("Drawings") as show_progress:
        for place, kind in enumerate(drawings.KINDS):
            score = scores[kind] = SkillScore()
            rng = random.Random(f"{seed} {kind}")
            while score.count < args.count and not stopped:
                done = (place + score.count / args.count) / len(drawings.KINDS)
                show_progress(done, f"{kind.capitalize()} ({place + 1} of {len(drawings.KINDS)})")
                proportion = drawings.random_proportion(rng) if args.proportions else 1.0
                example = drawings.sample(rng, "test", 1, kind, proportion)
                question = example.asked[0][0]
                outcome = ask(model, drawings.picture_of(example.scene), question, config, seed)
                stopped = outcome.stopped
                if not stopped:
                    score.add(drawings.check(example.scene, question, outcome.text), outcome)
            if stopped:
                break
    titles = {kind: kind.capitalize() for kind in drawings.KINDS}
    show(args, "drawings", titles, scores, running.model_names(model))
    if stopped:
        terminal.say("stopped; the table holds what was run")
        return 130
    return 0


def decisions(rng: random.Random, modes: Sequence[str]) -> Iterator[tuple[DecisionExample, tuple[Picture, ...]]]:
    """Yields decisions about drawings without end: single ones of each kind in turn, joint ones of two questions."""
    from engine.tasks import drawings  # imports Pillow

    for mode, kind in itertools.cycle([(mode, kind) for kind in drawings.DECIDED_KINDS for mode in modes]):
        is_joint = mode == "joint"
        drawn = drawings.sample_decision(rng, "test", 2 if is_joint else 1, None if is_joint else kind)
        example = DecisionExample(
            Decision("", tuple(one.question for one in drawn.asked), is_joint=is_joint),
            tuple(one.answer for one in drawn.asked),
            tuple(one.family for one in drawn.asked),
            (True,) * len(drawn.asked),
        )
        yield example, (drawings.picture_of(drawn.scene),)


def ask(model: Model, picture: Picture, question: str, config: GenerationConfig, seed: int) -> running.Outcome:
    """Asks a question about a picture and returns the outcome."""
    messages = [message_of(question, [picture])]
    ids = model.chat_ids(messages, image_tokens=config.image_tokens)
    return running.run(model, model.with_images(ids, messages, [picture], config.image_tokens), config, seed)
