"""What a batch of races asks, and who tells what is right: held-out tasks, puzzles, or lines of a user. Without Qt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.state.sudoku.placing import grid_in, puzzle_in
from app.state.sudoku.scores import make_task
from engine.errors import SafelightError
from engine.tasks import skills, sudoku
from engine.tasks.sudoku import BINS, Bin

MOST_PROMPTS = 10_000  # of a batch
OWN = "own"  # the group of a user's own prompts


@dataclass(frozen=True)
class RacePrompt:
    """A prompt of a batch, and the group that it counts in: a skill's name, a bin's, or ``OWN``."""

    text: str
    group: str = OWN

    def is_right(self, answer: str) -> bool | None:
        """Whether an answer is right; None where no program can tell. A Sudoku takes the solver a moment."""
        return is_right(self.text, answer)


def is_right(prompt: str, answer: str) -> bool | None:
    """Whether an answer is what a prompt asks for; None where no program can tell."""
    puzzle = puzzle_in(prompt)
    if puzzle is not None:
        grid = grid_in(answer)
        return grid is not None and sudoku.judge(puzzle, grid.answer).valid
    return None if skills.solve(prompt) is None else skills.check(prompt, answer)


def skill_prompts(count: int, seed: int, names: tuple[str, ...] = ()) -> list[RacePrompt]:
    """So many tasks that were held out of training, a skill after the other in turns.

    Args:
        names: of skills; none takes all of them.
    """
    names = names or tuple(skills.SKILLS)
    draws = {name: random.Random(f"{seed} {name}") for name in names}
    order = [names[index % len(names)] for index in range(count)]
    return [RacePrompt(skills.sample(draws[name], "test", name).prompt, name) for name in order]


def sudoku_prompts(count: int, seed: int, bins: tuple[Bin, ...] = BINS) -> Iterator[RacePrompt]:
    """So many fresh puzzles, a bin after the other in turns; each is made as it is asked for, 20 to 200 ms."""
    for index in range(count):
        name = bins[index % len(bins)]
        yield RacePrompt(sudoku.to_prompt(make_task(name, seed, index // len(bins)).puzzle), name)


@dataclass(frozen=True)
class BatchRequest:
    """What a batch asks.

    Args:
        names: of skills or bins, in turns; none takes all.
        count: of tasks or puzzles. seed: of these, and of the runs.
        own: a user's own prompts, in place of the others.
    """

    source: Literal["skills", "sudoku", "own"]
    names: tuple[str, ...] = ()
    count: int = 0
    seed: int = 0
    own: tuple[RacePrompt, ...] = ()

    def __len__(self) -> int:
        return len(self.own) if self.source == "own" else self.count

    def prompts(self) -> Iterator[RacePrompt]:
        """In their order; a puzzle is made as it is asked for, which takes 20 to 200 ms."""
        if self.source == "own":
            yield from self.own
        elif self.source == "skills":
            yield from skill_prompts(self.count, self.seed, self.names)
        else:
            yield from sudoku_prompts(self.count, self.seed, tuple(name for name in BINS if name in self.names) or BINS)


def own_prompts(text: str) -> list[RacePrompt]:
    """A prompt a line, empty ones left out.

    Raises:
        SafelightError: there is none, or there are too many.
    """
    found = [RacePrompt(line.strip()) for line in text.splitlines() if line.strip()]
    if not found:
        raise SafelightError("there are no prompts; write one a line")
    if len(found) > MOST_PROMPTS:
        raise SafelightError(f"{len(found)} prompts are more than a batch takes; give at most {MOST_PROMPTS}")
    return found
