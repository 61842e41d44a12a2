"""A position's history in words: for the line under its chart and for screen readers. Knows no widget."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from app.canvas.glyphs import glyph_of
from app.state.run.cell_history import History
from app.system.i18n import tr, trn

Piece = Callable[[int], str]
_OPEN, _CLOSE = "\u2068", "\u2069"  # keep text that runs from right to left from turning what stands around it


def quoted(piece: str) -> str:
    """A token's text between quotation marks, with what is unseen written out."""
    text = repr(piece)
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"{_OPEN}{text}{_CLOSE}" if turned else text


def percent(share: float) -> str:
    """A probability for reading: never 0 % or 100 % where it is not."""
    if 0 < share < 0.001:
        return tr("under 0.1 %")
    if 0.999 < share < 1:
        return tr("over 99.9 %")
    return tr("{share} %", share=f"{100 * share:.1f}")


def history_in_words(bio: History, piece: Piece) -> str:
    """The whole history in a sentence or two."""
    if bio.pinned:
        stands = bio.final if bio.final is not None else int(bio.following[-1]) if bio.steps else None
        if stands is None:
            return tr("Given: it was pinned from the start.")
        return tr("Given: pinned as {text} from the start.", text=quoted(piece(stands)))
    if not bio.steps:
        return tr("No step was taken yet.")
    said = [tr("Accepted at {count} of {steps}", count=bio.accepted_count, steps=_steps(bio.steps)), _remelted(bio)]
    settled = quoted(piece(int(bio.argmax[-1])))
    if bio.final is None:
        said.append(tr("best guess since step {step}: {text}", step=bio.settled_at, text=settled))
    else:
        said.append(tr("settled at step {step} as {text}", step=bio.settled_at, text=settled))
    sentence = tr("{facts}.", facts=", ".join(said))
    if bio.padding:
        sentence += " " + tr("It is padding behind the end of the text.")
    return sentence


def moment_in_words(bio: History, step: int, piece: Piece) -> str:
    """One step of it in words; ``step`` -1 is the noise before the first, ``bio.steps`` the commit."""
    if step < 0 or not bio.steps:
        return tr("Before the first step: the position holds noise.")
    if step >= bio.steps:
        if bio.final is None:
            return ""
        return tr("Committed as {text}.", text=quoted(piece(bio.final)))
    guess, sample = int(bio.argmax[step]), int(bio.candidates[step])
    if bio.accepted[step]:
        fate = tr("accepted")
    elif bio.remelted[step]:
        fate = tr("re-noised, which is a remelt")
    else:
        fate = tr("re-noised")
    entropy = tr("entropy {entropy} nats", entropy=f"{bio.entropy[step]:.3f}")
    if guess == sample:
        said = tr("argmax and sampled {text}, {fate}", text=quoted(piece(guess)), fate=fate)
    else:
        said = tr(
            "argmax {guess}, sampled {text}, {fate}", guess=quoted(piece(guess)), text=quoted(piece(sample)), fate=fate
        )
    return tr("Step {step}: {said}; {entropy}.", step=step, said=said, entropy=entropy)


def _steps(number: int) -> str:
    return trn("{count} step", "{count} steps", number)


def _remelted(bio: History) -> str:
    match bio.remelt_count:
        case 0:
            return tr("never remelted")
        case 1:
            return tr("remelted once")
        case 2:
            return tr("remelted twice")
        case count:
            return tr("remelted {count} times", count=count)


def written(piece: str, special: bool) -> str:
    """A token as it is drawn in charts: with signs for what is unseen, a control token by its name."""
    return piece if special else glyph_of(piece, False).text or piece
