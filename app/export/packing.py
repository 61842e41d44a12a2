"""Packs the arrays of a block for the replaying page, in few bytes and with exact tokens. Knows no page.

Bytes of a block before deflating, for S steps, C positions and the K likeliest tokens:

======================  ==========  ===================================================================
noise                   3 C         the canvas before the first step.
final                   3 C         the committed canvas; missing if the block was not committed.
argmax                  3 S C
candidate               3 S C       exclusive or with argmax.
following               3 S C       exclusive or with candidate.
accepted                S C         0 or 1.
entropy                 2 S C       thousandths of a nat.
top tokens              3 S C K     by rank; the first exclusive or with argmax.
top probabilities       2 S C K     thousandths, by rank.
======================  ==========  ===================================================================

Tokens are indices in the page's own list. Numbers are stored in byte planes, lowest bytes first, so that the high
bytes, which are nearly all zero, take almost no space after deflating.
"""

from __future__ import annotations

import base64
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.state.run.replay import BlockRecord

MILLI = 1000
MOST = 2**16 - 1
PIECE = 2**17  # bytes to deflate per step


@dataclass
class Vocabulary:
    """The tokens of a run in the order of the blocks they first occur in, within a block the frequent ones first."""

    tokens: list[int] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)

    def place(self, token: int) -> int:
        found = self._places.setdefault(token, len(self.tokens))
        if found == len(self.tokens):
            self.tokens.append(token)
        return found

    def places(self, tokens: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Returns an array with vocabulary indices in place of token numbers; adds new tokens."""
        values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
        for token, _count in Counter(dict(zip(values.tolist(), counts.tolist(), strict=True))).most_common():
            self.place(token)
        table = np.array([self._places[token] for token in values.tolist()], dtype=np.uint32)
        return table[inverse.reshape(tokens.shape)] if len(values) else np.zeros(tokens.shape, dtype=np.uint32)


def pack(block: BlockRecord, vocabulary: Vocabulary) -> Generator[None, None, dict[str, Any]]:
    """Returns a block for the page: small values as they are, its arrays deflated and in base 64.

    Yields after each piece of work, since a long block takes seconds.
    """
    deflate = zlib.compressobj(9)
    data = []
    for plane in _planes(block, vocabulary):
        yield
        for start in range(0, len(plane), PIECE):
            data.append(deflate.compress(plane[start : start + PIECE]))
            yield
    data.append(deflate.flush())
    return {
        "length": block.length,
        "steps": block.steps,
        "width": 0 if block.top_tokens is None or block.top_probabilities is None else block.top_tokens.shape[2],
        "committed": block.final is not None,
        "textLength": block.text_length,
        "reason": block.reason,
        "pinned": np.flatnonzero(block.pinned).tolist(),
        "held": _held_from(block),
        "fits": np.flatnonzero(block.snapshots[-1].fitting_mask).tolist(),
        "rounds": [[one.number, one.step, one.pinned, one.new, one.written] for one in block.rounds],
        "filler": None if block.filler is None else vocabulary.place(block.filler),
        "temperature": [round(float(value), 4) for value in block.temperature],
        "data": base64.b64encode(b"".join(data)).decode("ascii"),
    }


def _held_from(block: BlockRecord) -> list[tuple[int, int]]:
    """Returns positions pinned by a fork or a round, each with the first step at which it was pinned.

    The commit counts as the step after the last.
    """
    held = np.vstack([block.held, block.snapshots[-1].pinned_mask[None]])
    found = np.flatnonzero(held.any(axis=0) & ~block.pinned)
    return [(int(position), int(held[:, position].argmax())) for position in found]


def _planes(block: BlockRecord, vocabulary: Vocabulary) -> Iterator[bytes]:
    """Yields the bytes of a block in the order of the table above."""
    argmax = vocabulary.places(block.argmax)
    candidates = vocabulary.places(block.candidates)
    following = vocabulary.places(block.following)
    yield _tokens(vocabulary.places(block.noise))
    if block.final is not None:
        yield _tokens(vocabulary.places(block.final))
    yield _tokens(argmax)
    yield _tokens(candidates ^ argmax)
    yield _tokens(following ^ candidates)
    yield block.accepted.astype(np.uint8).tobytes()
    yield _thousandths(block.entropy)
    if block.top_tokens is not None and block.top_probabilities is not None:
        top = np.moveaxis(vocabulary.places(block.top_tokens), 2, 0).copy()
        top[:1] ^= argmax
        yield _tokens(top)
        yield _thousandths(np.moveaxis(block.top_probabilities, 2, 0))


def _tokens(values: NDArray[np.uint32]) -> bytes:
    return b"".join(((values >> shift) & 255).astype(np.uint8).tobytes() for shift in (0, 8, 16))


def _thousandths(values: NDArray[np.float32]) -> bytes:
    finite = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=MOST / MILLI, neginf=0.0)
    rounded = np.clip(np.rint(finite * MILLI), 0, MOST).astype(np.uint16)
    return (rounded & 255).astype(np.uint8).tobytes() + (rounded >> 8).astype(np.uint8).tobytes()
