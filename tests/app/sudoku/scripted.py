"""A made-up run on a Sudoku canvas, written out by hand: what stands where, and how likely. Tokens are characters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from app.state.run.canvas import BlockState, CanvasState
from app.state.sudoku.board import SIZE
from app.state.sudoku.solve_frame import POSITIONS
from engine import CanvasCommitted, CanvasStarted, Event, StepFinished

LENGTH = 96
PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
NOISE = "ø"

piece = chr


def canvas(cells: str) -> np.ndarray:
    """81 characters as tokens, with a line break after each nine and end tokens behind."""
    tokens = np.full(LENGTH, ord("\0"), dtype=np.int32)
    for cell, place in enumerate(POSITIONS):
        tokens[place] = ord(cells[cell])
        if cell % 9 == 8 and cell < SIZE - 1:
            tokens[place + 1] = ord("\n")
    return tokens


def mask(cells: set[int]) -> np.ndarray:
    found = np.zeros(LENGTH, dtype=np.bool_)
    found[[POSITIONS[cell] for cell in cells]] = True
    return found


class Script:
    """Events of a run, step by step."""

    def __init__(self, pinned: set[int] | None = None) -> None:
        self.events: list[Event] = [CanvasStarted(0, canvas(NOISE * SIZE), mask(pinned or set()))]
        self._steps = 0

    def step(
        self,
        best: str,
        accepted: set[int],
        marks: Mapping[int, Mapping[str, float]] | None = None,
        written: str | None = None,
    ) -> Script:
        """One step: the best guess of all cells, the accepted ones, and where the model is of two minds."""
        guess, kept = canvas(best), mask(accepted)
        candidates = canvas(written or best)
        top_tokens = top_shares = None
        if marks is not None:
            top_tokens = np.full((LENGTH, 4), ord("~"), dtype=np.int32)
            top_shares = np.zeros((LENGTH, 4), dtype=np.float32)
            top_tokens[:, 0], top_shares[:, 0] = guess, 1.0
            for cell, shares in marks.items():
                place = POSITIONS[cell]
                top_shares[place] = 0
                for rank, (digit, share) in enumerate(shares.items()):
                    top_tokens[place, rank], top_shares[place, rank] = ord(digit), share
        entropy = np.full(LENGTH, 9.0, dtype=np.float32)  # behind the cells, where it must not count
        entropy[list(POSITIONS)] = 0.5
        shown = np.where(kept, candidates, canvas(NOISE * SIZE))
        self.events.append(
            StepFinished(0, self._steps, 0.8, guess, candidates, entropy, kept, shown, 0.1, top_tokens, top_shares)
        )
        self._steps += 1
        return self

    def commit(self, cells: str, text_length: int = 89) -> Script:
        self.events.append(CanvasCommitted(0, canvas(cells), text_length, self._steps, "converged"))
        return self

    @property
    def block(self) -> BlockState:
        """The canvas as it stands now."""
        block = CanvasState.from_events(self.events).current
        return block
