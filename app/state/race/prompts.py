"""The lanes and the prompts of races and tunings, and checks of their answers: puzzles, or a user's own. No Qt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.state.sudoku.placing import grid_in, puzzle_in
from engine import MINI, WEDLM, catalog
from engine.decoders import BLOCK_DIFFUSION
from engine.errors import SafelightError
from engine.model_files import model_title
from engine.pictures import Picture
from engine.service import Lane
from engine.tasks import skills, sudoku
from engine.tasks.sudoku import GivenRange


@dataclass(frozen=True)
class LaneSpec:
    """The model, decoder and settings of a lane; an empty ``decoder`` is the model's own."""

    model: str
    decoder: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    adapter: str = ""

    @property
    def model_title(self) -> str:
        """The title of an embedded model, or a model's by where it lies."""
        return catalog.title(self.model) or model_title(Path(self.model))

    @property
    def title(self) -> str:
        """The model, its decoder, adapter and changed settings, as far as they were given."""
        said = [f"{name}={value}" for name, value in self.changes.items()]
        whole = f"{self.model_title} · {self.decoder}" if self.decoder else self.model_title
        return ", ".join(filter(None, (whole, self.adapter, *said)))

    def record(self) -> dict[str, Any]:
        """Returns the lane for JSON."""
        return {
            "title": self.title,
            "model": self.model,
            "decoder": self.decoder,
            "adapter": self.adapter,
            "settings": dict(self.changes),
        }

    def lane(self) -> Lane:
        """Returns a new lane for one race."""
        changes = {**self.changes, "decoder": self.decoder} if self.decoder else dict(self.changes)
        return Lane(self.model, self.model_title, changes, self.adapter)


def usual_lanes() -> tuple[LaneSpec, ...]:
    """Returns the lanes to begin with: two models, each with the decoder it was trained for."""
    return LaneSpec(MINI, BLOCK_DIFFUSION), LaneSpec(WEDLM, "autoregressive")


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
        puzzle = sudoku.generate(random.Random(f"{seed} {span} {index}"), span.low, span.high, held_out=True)
        yield RacePrompt(sudoku.to_prompt(puzzle.board))


def own_prompts(text: str) -> list[RacePrompt]:
    """Returns a prompt for each line of a text that is not empty.

    Raises:
        SafelightError: there are no prompts.
    """
    prompts = [RacePrompt(line.strip()) for line in text.splitlines() if line.strip()]
    if not prompts:
        raise SafelightError("there are no prompts; write one a line")
    return prompts
