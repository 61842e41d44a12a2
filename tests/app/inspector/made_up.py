"""A run made by hand for the page and its parts, with everything in it known."""

from __future__ import annotations

import numpy as np

from engine import CanvasCommitted, CanvasStarted, Event, StepFinished

LENGTH, STEPS = 24, 4


def run(blocks: int = 2, top: bool = True, text_length: int = LENGTH) -> list[Event]:
    """Cells 4 to 7 settle, 8 and 9 are remelted at the third step, the argmax of 10 changes at the second.

    The first block stops early, the others at the cap.
    """
    rng = np.random.default_rng(4)
    events: list[Event] = []
    for block in range(blocks):
        final = rng.integers(2, 26, LENGTH).astype(np.int32)
        noise = rng.integers(2, 26, LENGTH).astype(np.int32)
        events.append(CanvasStarted(block, noise, np.zeros(LENGTH, dtype=np.bool_)))
        for step in range(STEPS):
            guess = final.copy()
            if step < 1:
                guess[10] = (final[10] + 1) % 26
            accepted = np.zeros(LENGTH, dtype=np.bool_)
            accepted[4:8] = True
            accepted[8:10] = step != 2
            entropy = np.linspace(0, 2.0 / (step + 1), LENGTH).astype(np.float32)
            tops = shares = None
            if top:
                tops = np.stack([guess, (guess + 3) % 26], axis=1).astype(np.int32)
                shares = np.tile(np.array([[0.6 + 0.1 * step, 0.1]], np.float32), (LENGTH, 1))
            following = np.where(accepted, guess, rng.integers(2, 26, LENGTH)).astype(np.int32)
            args = (block, step, 0.8 - 0.1 * step, guess, guess, entropy, accepted, following, 0.1, tops, shares)
            events.append(StepFinished(*args))
        length = text_length if block == blocks - 1 else LENGTH
        events.append(CanvasCommitted(block, final, length, STEPS, "step_cap" if block else "converged"))
    return events


class Recorded:
    """A run in memory, with how it was asked for."""

    prompt = "Sort these"
    model_name = "made-up"
    seed = 7

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def piece(self, token: int) -> str:
        return chr(97 + token % 26)

    def is_special(self, _token: int) -> bool:
        return False
