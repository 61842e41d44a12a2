"""The prompts of races and tunings, and checks of their answers: puzzles, or a user's own. No Qt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from app.state.sudoku.placing import grid_in, puzzle_in
from engine.errors import SafelightError
from engine.pictures import Picture
from engine.tasks import skills, sudoku
from engine.tasks.sudoku import GivenRange

USUAL_GIVENS = GivenRange(25, 50)


@dataclass(frozen=True)
class RacePrompt:
    """A prompt with the pictures before it.

    ``answer`` is the only right one, apart from space around it; None if a program checks the answer.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    answer: str | None = None

    def is_right(self, answer: str) -> bool | None:
        """Returns True if an answer is right; None if no program can check it. Solving a Sudoku takes a moment."""
        if self.answer is not None:
            return answer.strip() == self.answer.strip()
        return is_right(self.text, answer) if not self.pictures else None


def is_right(prompt: str, answer: str) -> bool | None:
    """Returns True if an answer to a prompt without pictures is right; None if no program can check it."""
    puzzle = puzzle_in(prompt)
    if puzzle is not None:
        grid = grid_in(answer)
        return grid is not None and sudoku.judge(puzzle, grid.answer).valid
    return None if skills.solve(prompt) is None else skills.check(prompt, answer)


def sudoku_prompts(count: int, seed: int, givens: GivenRange | None) -> Iterator[RacePrompt]:
    """Yields ``count`` puzzles with one solution, from grids held out of training; equal arguments give equal puzzles.

    Making one takes 20 to 200 ms, when it is requested.
    """
    span = givens or USUAL_GIVENS
    for index in range(count):
        made = sudoku.generate(random.Random(f"{seed} {span} {index}"), span.low, span.high, held_out=True)
        yield RacePrompt(sudoku.to_prompt(made.board))


def own_prompts(text: str) -> list[RacePrompt]:
    """Returns a prompt for each line of a text that is not empty.

    Raises:
        SafelightError: there are no prompts.
    """
    found = [RacePrompt(line.strip()) for line in text.splitlines() if line.strip()]
    if not found:
        raise SafelightError("there are no prompts; write one a line")
    return found
