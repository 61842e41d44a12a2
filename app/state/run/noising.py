"""Makes forks that test if an answer depends on its thought: part of the thought becomes noise, the rest is pinned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from app.state.run.canvas import Tokens
from app.state.run.settling import RunOrder, thinking
from engine import Fork, SafelightError
from engine.text.tags import THOUGHT

Piece = Callable[[int], str]
MOST_DRAWS = 1_000


def noised(
    order: RunOrder, share: float, seed: Sequence[int], tokens: Tokens, is_out: Callable[[int], bool], piece: Piece
) -> tuple[Fork, ...]:
    """Returns the changes of one attempt: the whole thought is pinned from the start, a share of it to random tokens.

    Args:
        share: the share of the thought's positions that become noise, 0 to 1; at least one position does.
        seed: of the random positions and tokens.
        tokens: (M,) ids that noise is drawn from.
        is_out: True for a token that must not be drawn.
        piece: the text of a token; the name of the thought's channel is not changed.

    Raises:
        SafelightError: too few tokens may be drawn.
    """
    rng = np.random.default_rng(seed)
    named = np.array([piece(token) == THOUGHT for token in order.tokens.tolist()], dtype=np.bool_)
    named[1:] &= order.marks[:-1]
    places = np.flatnonzero(order.thinking & ~named)
    chosen = rng.choice(places, max(1, round(share * len(places))), replace=False)
    held = order.tokens.copy()
    held[chosen] = _drawn(rng, len(chosen), tokens, is_out)
    found = []
    for block, span in order.spans():
        fixed = np.flatnonzero((order.thinking | order.marks)[span])
        if len(fixed):
            pins = tuple((int(place), int(held[span][place])) for place in fixed)
            found.append(Fork(block, 0, pinned=pins))
    return tuple(found)


def _drawn(rng: np.random.Generator, count: int, tokens: Tokens, is_out: Callable[[int], bool]) -> Tokens:
    """Draws tokens (count,) and redraws excluded ones, as checking a whole vocabulary first takes too long."""
    found = rng.choice(tokens, count)
    for _ in range(MOST_DRAWS):
        out = np.array([is_out(int(token)) for token in found], dtype=np.bool_)
        if not out.any():
            return found
        found[out] = rng.choice(tokens, int(out.sum()))
    raise SafelightError("there is no token to make noise of; allow more tokens")


def answer_of(tokens: Tokens, piece: Piece) -> str:
    """Returns the text of the answer in a run's tokens (N,), without its thought and with single spaces."""
    inside, marks = thinking(tokens, piece)
    return " ".join("".join(piece(token) for token in tokens[~inside & ~marks].tolist()).split())
