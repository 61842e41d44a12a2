"""The prompts of a batch of races, and checks of their answers: puzzles, or a user's lines. No Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.state.sudoku.placing import grid_in, puzzle_in
from app.state.sudoku.scores import make_puzzle
from engine.errors import SafelightError
from engine.pictures import Picture
from engine.tasks import skills, sudoku
from engine.tasks.sudoku import BINS, GIVENS, Bin

MOST_PROMPTS = 10_000  # of a batch
OWN = "own"  # the group of a user's own prompts


@dataclass(frozen=True)
class RacePrompt:
    """A prompt of a batch, and the group that it counts in: a bin, or ``OWN``.

    ``pictures`` come before the prompt. ``answer`` is the only right one, apart from space around it; None if a program
    checks the answer.
    """

    text: str
    group: str = OWN
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


def sudoku_prompts(count: int, seed: int, bins: tuple[Bin, ...] = BINS) -> Iterator[RacePrompt]:
    """Yields ``count`` new puzzles, one of each bin in turn. Making one takes 20 to 200 ms, when it is requested."""
    for index in range(count):
        name = bins[index % len(bins)]
        yield RacePrompt(sudoku.to_prompt(make_puzzle(GIVENS[name], seed, index // len(bins)).board), name)


def own_prompts(text: str) -> list[RacePrompt]:
    """Returns a prompt for each line of a text that is not empty.

    Raises:
        SafelightError: there are no prompts, or too many.
    """
    found = [RacePrompt(line.strip()) for line in text.splitlines() if line.strip()]
    if not found:
        raise SafelightError("there are no prompts; write one a line")
    if len(found) > MOST_PROMPTS:
        raise SafelightError(f"{len(found)} prompts are more than a batch takes; give at most {MOST_PROMPTS}")
    return found
