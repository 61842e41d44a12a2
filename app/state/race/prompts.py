"""What a batch of races asks, and who tells what is right: held-out tasks, puzzles, drawings, a user's lines. No Qt."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.state.sudoku.placing import grid_in, puzzle_in
from app.state.sudoku.scores import make_task
from engine.errors import SafelightError
from engine.pictures import Picture
from engine.tasks import skills, sudoku
from engine.tasks.sudoku import BINS, Bin

if TYPE_CHECKING:
    from engine.tasks.drawings import Scene

MOST_PROMPTS = 10_000  # of a batch
OWN = "own"  # the group of a user's own prompts


@dataclass(frozen=True)
class RacePrompt:
    """A prompt of a batch, and the group that it counts in: a skill's name, a bin's, a kind of question, or ``OWN``.

    ``pictures`` stand before it. ``scene`` is what they show where that is a drawing.
    """

    text: str
    group: str = OWN
    pictures: tuple[Picture, ...] = ()
    scene: Scene | None = None

    def is_right(self, answer: str) -> bool | None:
        """Whether an answer is right; None where no program can tell. A Sudoku takes the solver a moment."""
        if self.scene is None:
            return is_right(self.text, answer) if not self.pictures else None
        from engine.tasks import drawings  # Pillow

        return drawings.check(self.scene, self.text, answer)


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


def drawing_prompts(count: int, seed: int) -> Iterator[RacePrompt]:
    """So many questions about drawings, held out of training, a kind after the other in turns."""
    from engine.tasks import drawings  # Pillow

    kinds = tuple(drawings.KINDS)
    draws = {kind: random.Random(f"{seed} {kind}") for kind in kinds}
    for index in range(count):
        kind = kinds[index % len(kinds)]
        example = drawings.sample(draws[kind], "test", kind=kind)
        yield RacePrompt(example.asked[0][0], kind, (drawings.picture_of(example.scene),), example.scene)


@dataclass(frozen=True)
class BatchRequest:
    """What a batch asks.

    Args:
        names: of skills or bins, in turns; none takes all.
        count: of tasks, puzzles or questions. seed: of these, and of the runs.
        own: a user's own prompts, in place of the others.
    """

    source: Literal["skills", "sudoku", "drawings", "own"]
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
        elif self.source == "drawings":
            yield from drawing_prompts(self.count, self.seed)
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
