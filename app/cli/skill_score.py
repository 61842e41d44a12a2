"""Counts how many answers of each kind were exactly right, and prints a table or JSON. Knows no torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.cli import running, terminal


@dataclass
class SkillScore:
    """The results of one kind of task."""

    count: int = 0
    exact: int = 0
    canvas_steps: list[int] = field(default_factory=list)

    def add(self, is_right: bool, outcome: running.Outcome) -> None:
        """Counts one answer."""
        self.count += 1
        self.exact += is_right
        self.canvas_steps += outcome.canvas_steps

    @property
    def rate(self) -> float:
        return self.exact / self.count if self.count else 0.0

    @property
    def steps_per_canvas(self) -> float:
        return sum(self.canvas_steps) / len(self.canvas_steps) if self.canvas_steps else 0.0


def show(
    args: argparse.Namespace,
    what: str,
    titles: Mapping[str, str],
    scores: Mapping[str, SkillScore],
    names: dict[str, str],
) -> None:
    """Prints the scores of kinds with counted answers.

    Args:
        what: "skills" or "drawings".
        titles: of each kind.
        names: of model and adapter.
    """
    scores = {name: score for name, score in scores.items() if score.count}
    total = SkillScore(
        sum(score.count for score in scores.values()),
        sum(score.exact for score in scores.values()),
        [steps for score in scores.values() for steps in score.canvas_steps],
    )
    seed = running.seed(args)
    if args.json:
        running.print_json(
            {
                what: {
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
    heading = f"{' + '.join(names.values())}, held-out {'tasks' if what == 'skills' else what}, seed {seed}"
    table = terminal.table(heading, what.removesuffix("s"), "exact", "of", "rate", "steps per canvas")
    for title, score in (*((titles[name], score) for name, score in scores.items()), (f"All {what}", total)):
        rate = f"{100 * score.rate:.1f} %"
        table.add_row(title, str(score.exact), str(score.count), rate, f"{score.steps_per_canvas:.1f}")
    terminal.console(sys.stdout).print(table)
