"""What happens at each step of a block: which cells are accepted, taken back, decided otherwise. Knows no words.

Read from a block's arrays, so from the run's events alone. Padding behind the end of the text has no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.state.run.canvas import Mask, Tokens
from app.state.run.replay import BlockRecord


@dataclass(frozen=True)
class Moment:
    """One step. Places are positions of the canvas, in order."""

    step: int
    accepted: int  # cells that are accepted after it
    counted: int  # cells that may be: those of the text that nobody pinned
    fresh: tuple[int, ...]  # accepted for the first time
    taken_back: tuple[int, ...]  # accepted at the step before, re-noised at this one
    again: tuple[int, ...]  # accepted once more, as what they were when they were taken back
    otherwise: tuple[int, ...]  # accepted once more, as something else
    settled: int  # cells that are settled after it
    changed: tuple[int, ...]  # whose best guess is another than at the step before


def moment(record: BlockRecord, step: int) -> Moment:
    """What happens at a step. Raises IndexError outside of the block's steps."""
    if not 0 <= step < record.steps:
        raise IndexError(f"step {step} is none of the block's {record.steps}")
    counts = np.zeros(record.length, dtype=np.bool_)
    counts[record.counted] = True
    counts &= ~record.held[step]
    now = record.accepted[step] & counts
    before = (record.accepted[step - 1] if step else record.begun) & counts
    new = now & ~before
    ever = record.accepted[:step].any(axis=0) | record.begun
    same = new & ever & (tokens_before(record, step) == record.candidates[step])
    return Moment(
        step=step,
        accepted=int(now.sum()),
        counted=int(counts.sum()),
        fresh=_places(new & ~ever),
        taken_back=_places(record.remelted[step] & counts),
        again=_places(same),
        otherwise=_places(new & ever & ~same),
        settled=int((record.snapshots[step + 1].settled_mask & counts).sum()),
        changed=_places(record.changed[step] & counts),
    )


def tokens_before(record: BlockRecord, step: int) -> Tokens:
    """(C,) the token that was accepted the last time before a step; of no meaning where none was."""
    last = step - 1 - np.argmax(record.accepted[:step][::-1], axis=0) if step else np.zeros(record.length, np.intp)
    found: Tokens = record.candidates[last, np.arange(record.length)]
    return found


def in_doubt(record: BlockRecord) -> int:
    """Cells of the text that were not accepted at the block's last step."""
    if not record.steps:
        return 0
    waiting = ~record.accepted[-1] & ~record.held[-1]
    return int(waiting[record.counted].sum())


def _places(mask: Mask) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())
