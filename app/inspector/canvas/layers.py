"""The layers of the canvas: the figure that a cell's colour shows, and its scale. Pure functions, without widgets."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from app.canvas.heat import Heat
from app.state.run.canvas import BlockState
from app.state.run.replay import NOISE, BlockRecord
from app.system.i18n import tr, trn
from engine import step_number

LayerName = Literal["state", "entropy", "confidence", "causal", "settling", "remelts", "change"]
LAYERS: tuple[LayerName, ...] = get_args(LayerName)
_OTHER_STATE, _OTHER_TOKEN = 0.45, 0.85  # positions on the colour scale, 0 to 1

Shares = NDArray[np.float32]


def title(layer: LayerName) -> str:
    """Returns a layer's name in the user's language."""
    return {
        "state": tr("State"),
        "entropy": tr("Entropy"),
        "confidence": tr("Confidence"),
        "causal": tr("Causal probability"),
        "settling": tr("Step of settling"),
        "remelts": tr("Times taken back"),
        "change": tr("Change since the last step"),
    }[layer]


class Seen(NamedTuple):
    """The input of a layer: a block, its state at the current frame, and its state at the frame before."""

    record: BlockRecord
    step: int  # NOISE before the first step; the record's number of steps at the commit
    now: BlockState
    before: BlockState | None  # None at the noise
    calm: bool
    vocabulary: int | None  # vocabulary size of the model, if recorded


def heat(layer: LayerName, seen: Seen) -> Heat | None:
    """Returns the colours of a layer; None for the states, which have their own shapes and colours."""
    match layer:
        case "state":
            return None
        case "entropy":
            found = _entropy(seen)
        case "confidence":
            found = _confidence(seen)
        case "causal":
            found = _causal(seen)
        case "settling":
            found = _settling(seen)
        case "remelts":
            found = _remelts(seen)
        case "change":
            found = _change(seen)
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


def _confidence(seen: Seen) -> Heat:
    """Returns the layer of confidence.

    The scale is 1 minus confidence: everywhere in the app uncertain cells stand out. Its labels give the confidence.
    """
    top = seen.now.top_probabilities
    if top is not None and top.shape[1]:
        doubt = 1.0 - top[:, 0].astype(np.float32)
        if seen.now.known_entropy is not None:
            doubt[np.isnan(seen.now.known_entropy)] = np.nan
        name = tr("probability of the likeliest token")
    else:
        known = seen.vocabulary is not None and seen.vocabulary > 1
        most = math.log(seen.vocabulary) if known and seen.vocabulary else _most_entropy(seen.record)
        entropy = seen.now.known_entropy
        doubt = _nothing(seen) if entropy is None else np.clip(_divided(entropy, most), 0.0, 1.0)
        if known:
            name = tr("confidence, 1 − entropy / ln {count}", count=seen.vocabulary)
        else:
            name = tr("confidence, 1 − entropy / most in this block")

    def words(index: int) -> str:
        share = doubt[index]
        return tr("Confidence: not known") if np.isnan(share) else tr("Confidence: {share}", share=f"{1 - share:.1%}")

    return Heat(doubt, name, "100 %", "0 %", words=words)


def _causal(seen: Seen) -> Heat:
    """Returns the layer of causal probability. The scale is 1 minus the probability, as for confidence."""
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


def _change(seen: Seen) -> Heat:
    shares = _nothing(seen)
    now, before = seen.now, seen.before
    if before is not None:
        shares[now.states(calm=seen.calm) != before.states(calm=seen.calm)] = _OTHER_STATE
        shares[now.tokens(calm=seen.calm) != before.tokens(calm=seen.calm)] = _OTHER_TOKEN

    def words(index: int) -> str:
        share = shares[index]
        if np.isnan(share):
            return tr("As at the step before")
        return tr("Another token than at the step before") if share > 0.5 else tr("Another state, the same token")

    return Heat(
        shares,
        tr("since the step before"),
        "",
        "",
        ((_OTHER_TOKEN, tr("another token")), (_OTHER_STATE, tr("another state"))),
        words,
    )


def _divided(values: NDArray[np.float32], most: float) -> Shares:
    found: Shares = (values / most if most > 0 else np.zeros_like(values)).astype(np.float32)
    return found
