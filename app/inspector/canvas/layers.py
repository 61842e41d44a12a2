"""The layers of the canvas: the figure that a cell's colour shows, and its scale. Pure functions, without widgets."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from app.canvas.heat import Heat
from app.state.run.canvas import BlockState
from app.state.run.replay import NOISE, BlockRecord
from app.system.i18n import tr, trn
from engine import step_number

LayerName = Literal["state", "entropy", "causal", "settling", "remelts"]
LAYERS: tuple[LayerName, ...] = get_args(LayerName)

Shares = NDArray[np.float32]


def title(layer: LayerName) -> str:
    """Returns a layer's name in the user's language."""
    return {
        "state": tr("State"),
        "entropy": tr("Entropy"),
        "causal": tr("Causal probability"),
        "settling": tr("Step of settling"),
        "remelts": tr("Times taken back"),
    }[layer]


class Seen(NamedTuple):
    """The input of a layer: a block, and its state at the current frame."""

    record: BlockRecord
    step: int  # NOISE before the first step; the record's number of steps at the commit
    now: BlockState


def heat(layer: LayerName, seen: Seen) -> Heat | None:
    """Returns the colours of a layer; None for the states, which have their own shapes and colours."""
    match layer:
        case "state":
            return None
        case "entropy":
            found = _entropy(seen)
        case "causal":
            found = _causal(seen)
        case "settling":
            found = _settling(seen)
        case "remelts":
            found = _remelts(seen)
    if seen.now.text_length is not None:
        found.shares[seen.now.text_length :] = np.nan  # no text after that
    return found


def _nothing(seen: Seen) -> Shares:
    return np.full(seen.now.length, np.nan, dtype=np.float32)


def _most_entropy(record: BlockRecord) -> float:
    counted = record.entropy[:, record.counted]
    return float(counted.max()) if counted.size else 0.0


def _entropy(seen: Seen) -> Heat:
    most = _most_entropy(seen.record)
    entropy = seen.now.known_entropy
    shares = _nothing(seen) if entropy is None else _divided(entropy, most)
    return Heat(
        shares,
        tr("entropy"),
        "0",
        tr("{limit} nats (most in this block)", limit=f"{most:.2f}"),
    )


def _causal(seen: Seen) -> Heat:
    """Returns the layer of causal probability. The scale is 1 minus the probability: unlikely cells stand out."""
    causal = seen.now.causal
    shares = _nothing(seen) if causal is None else (1 - causal).astype(np.float32)
    unread = tr("causal probability (ask for a second opinion)")
    name = unread if seen.record.causal is None else tr("causal probability of the finished text")
    return Heat(shares, name, "100 %", "0 %", words=None if causal is not None else lambda _: tr("Not read causally"))


def _settling(seen: Seen) -> Heat:
    settled, steps = seen.record.settled_at, seen.record.steps
    shares = _nothing(seen)
    if steps and seen.step != NOISE:
        reached = settled <= seen.step
        shares[reached] = settled[reached] / max(1, steps - 1)

    def words(index: int) -> str:
        return tr("Settled at step {step} of {steps}", step=step_number(int(settled[index])), steps=steps)

    return Heat(
        shares,
        tr("settled for good at step"),
        "1",
        tr("{count} (no colour: not yet)", count=max(1, steps)),
        words=words,
    )


def _remelts(seen: Seen) -> Heat:
    counts = seen.record.remelted[:, seen.record.counted].sum(axis=0)
    most = int(counts.max()) if counts.size else 0
    shares = _divided(seen.now.remelts.astype(np.float32), max(1, most))
    shares[seen.now.remelts == 0] = np.nan
    high = trn("{count} time so far", "{count} times so far", most) if most else tr("none in this block")
    return Heat(shares, tr("times taken back"), "0", high)


def _divided(values: NDArray[np.float32], most: float) -> Shares:
    found: Shares = (values / most if most > 0 else np.zeros_like(values)).astype(np.float32)
    return found
