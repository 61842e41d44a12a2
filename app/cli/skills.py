"""``safelight skills``: the share of exactly right answers on tasks held out of training. Knows no torch."""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field

from app.cli import options, running, skills_decisions, terminal
from engine import DECIDER, SKILLS, SafelightError
from engine.tasks import skills

EPILOG = """\
The same seed asks the same tasks. An answer counts only if every character is right. Small talk has fixed
answers and is not held out.

examples:
  safelight skills --count 20
  safelight skills --json > skills.json
  safelight skills --decisions --count 400
"""


@dataclass
class SkillScore:
    """The results of one skill."""

    count: int = 0
    exact: int = 0
    canvas_steps: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.exact / self.count if self.count else 0.0

    @property
    def steps_per_canvas(self) -> float:
        return sum(self.canvas_steps) / len(self.canvas_steps) if self.canvas_steps else 0.0


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "skills",
        help="score the small text tasks",
        description="Score a model on small text tasks that were held out of training.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--count",
        type=options.number("the count", 1, 100_000),
        default=50,
        metavar="N",
        help="tasks of each skill (default: 50)",
    )
    parser.add_argument(
        "--only", action="append", choices=list(skills.SKILLS), metavar="SKILL", help="this skill only; may be repeated"
    )
    parser.add_argument(
        "--decisions",
        action="store_true",
        help=f"score small decisions instead, N single and N joint (default model: {DECIDER})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options.add_model(parser, SKILLS)
    options.add_decoding(parser)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.decisions:
        if args.only or options.sampler_changes(args):
            raise SafelightError("a decision is read in one step; leave out --only and the sampler's options")
        return skills_decisions.run(args)
    changes = options.sampler_changes(args)
    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    seed = running.seed(args)
    names = [name for name in skills.SKILLS if not args.only or name in args.only]
    scores: dict[str, SkillScore] = {}
    stopped = False
    for name in names:
        score = scores[name] = SkillScore()
        rng = random.Random(f"{seed} {name}")
        with terminal.note(f"{skills.SKILLS[name].title} ({len(scores)} of {len(names)}) …"):
            for _ in range(args.count):
                example = skills.sample(rng, "test", name)
                outcome = running.run(
                    model, model.chat_ids([{"role": "user", "content": example.prompt}]), config, seed
                )
                if outcome.stopped:
                    stopped = True
                    break
                score.count += 1
                score.exact += skills.check(example.prompt, outcome.text)
                score.canvas_steps += outcome.canvas_steps
        if stopped:
            break
    _show(args, scores, running.model_names(model), seed)
    if stopped:
        terminal.say("stopped; the table holds what was run")
        return 130
    return 0


def _show(args: argparse.Namespace, scores: dict[str, SkillScore], names: dict[str, str], seed: int) -> None:
    scores = {name: score for name, score in scores.items() if score.count}
    total = SkillScore(
        sum(score.count for score in scores.values()),
        sum(score.exact for score in scores.values()),
        [steps for score in scores.values() for steps in score.canvas_steps],
    )
    if args.json:
        running.print_json(
            {
                "skills": {
                    name: {"count": score.count, "exact": score.rate, "steps_per_canvas": score.steps_per_canvas}
                    for name, score in scores.items()
                },
                "exact": total.rate,
                "count": total.count,
                "steps_per_canvas": total.steps_per_canvas,
                "seed": seed,
                **names,
            }
        )
        return
    heading = f"{' + '.join(names.values())}, held-out tasks, seed {seed}"
    table = terminal.table(heading, "skill", "exact", "of", "rate", "steps per canvas")
    for name, score in (*scores.items(), ("all", total)):
        title = skills.SKILLS[name].title if name in skills.SKILLS else "All skills"
        rate = f"{100 * score.rate:.1f} %"
        table.add_row(title, str(score.exact), str(score.count), rate, f"{score.steps_per_canvas:.1f}")
    terminal.console(sys.stdout).print(table)
