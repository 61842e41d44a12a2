"""The canvas as it develops, for clients that ask for ``diffusion_frames``: fields of a chunk with an empty delta.

    type       "diffusion_frame".
    block      number of the canvas, from 1.
    step       number of its denoising step, from 1; 0 is the first canvas.
    total      the most steps that it may take.
    filler     the token of positions that are not written yet; null if the canvas begins as noise.
    text       the answer's text in this block as far as it is guessed.
    ids        the canvas after the step (C,), noise included.
    draft      the best guess at every position (C,).
    entropy    nats (C,).
    accepted   positions whose token was kept at this step.
    settled    accepted positions kept with one and the same best guess for two steps or more.
    remelted   positions kept at the step before and re-noised at this one, or with another token over a filler.
    pinned     positions before this one are held, as they fit the format of the answer; 0 without one.
    committed  whether the block is finished: then ``ids`` are its tokens, and those of the text are settled.
    pieces     texts of tokens that no earlier frame of this stream named, by id; empty for control tokens.

The first five are those of Unsloth's server, and its clients show them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.events import CanvasCommitted, CanvasStarted, Event, PrefixPinned, StepFinished
from engine.service import LoadedModel
from engine.trace.recording import Draft
from engine.types import Tokens

SETTLED_AFTER = 2  # steps in a row that a position must be accepted with one argmax
DIGITS = 4  # of an entropy


class CanvasFrames:
    """Folds one run's events to frames.

    Args:
        model: the model that wrote the tokens.
        total: the most denoising steps of a canvas.
    """

    def __init__(self, model: LoadedModel, total: int) -> None:
        self._model, self._total = model, total
        self._ends = frozenset(model.defaults.eos_token_ids)
        self._named: set[int] = set()
        self._accepted: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._agreed: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._read = Draft(self._ends)  # of the running block
        self._draft = self._shown = np.zeros(0, dtype=np.int32)
        self._pinned = 0
        self._filler: int | None = None

    def fold(self, event: Event) -> dict[str, Any] | None:
        """Returns the frame of the run's next event; None if it shows nothing new."""
        match event:
            case CanvasStarted():
                length = len(event.canvas)
                self._accepted = np.zeros(length, dtype=np.bool_)
                self._agreed = np.zeros(length, dtype=np.int32)
                self._draft = np.full(length, -1, dtype=np.int32)
                self._pinned, self._filler, self._shown = 0, event.filler, event.canvas
                if event.filler is not None:
                    self._accepted = event.canvas != event.filler
                self._read = Draft.from_events((event,), self._ends)
                return self._frame(event.block_index, 0, "", event.canvas, event.canvas)
            case StepFinished():
                return self._fold_step(event)
            case PrefixPinned():  # the rest is noise again, and not remelted
                self._pinned = event.pinned
                self._accepted = np.arange(len(event.canvas)) < event.pinned
                self._agreed = np.zeros_like(self._agreed)
            case CanvasCommitted():
                text = self._model.decode(event.tokens[: event.text_length].tolist()).text
                settled = list(range(event.text_length))
                return self._frame(event.block_index, event.steps, text, event.tokens, event.tokens) | {
                    "accepted": settled,
                    "settled": settled,
                    "committed": True,
                }
        return None

    def _fold_step(self, event: StepFinished) -> dict[str, Any]:
        accepted, draft = event.accepted_mask, event.argmax_canvas
        self._agreed = np.where(accepted, np.where(self._draft == draft, self._agreed, 0) + 1, 0).astype(np.int32)
        settled = (self._agreed >= SETTLED_AFTER) & (event.candidates == draft)
        is_replaced = self._shown != event.next_canvas if self._filler is not None else np.False_
        remelted = self._accepted & (~accepted | is_replaced)
        self._accepted, self._draft, self._shown = accepted, draft, event.next_canvas
        self._read.fold(event)
        text = self._model.decode(self._read.tokens()).text
        return self._frame(event.block_index, event.step + 1, text, event.next_canvas, draft) | {
            "entropy": [round(value, DIGITS) for value in event.entropy.tolist()],
            "accepted": np.flatnonzero(accepted).tolist(),
            "settled": np.flatnonzero(settled).tolist(),
            "remelted": np.flatnonzero(remelted).tolist(),
        }

    def _frame(self, block: int, step: int, text: str, canvas: Tokens, draft: Tokens) -> dict[str, Any]:
        ids, guess = canvas.tolist(), draft.tolist()
        fresh = {*ids, *guess, *(() if self._filler is None else (self._filler,))} - self._named
        self._named |= fresh
        return {
            "type": "diffusion_frame",
            "block": block + 1,
            "step": step,
            "total": self._total if self._filler is None else len(ids),
            "filler": self._filler,
            "text": text,
            "ids": ids,
            "draft": guess,
            "entropy": [],
            "accepted": [],
            "settled": [],
            "remelted": [],
            "pinned": self._pinned,
            "committed": False,
            "pieces": {token: "" if self._model.is_special(token) else self._model.piece(token) for token in fresh},
        }
