"""The changes of a try in which a thought becomes noise, and how its answer reads."""

from __future__ import annotations

import numpy as np
import pytest

from app.state.run.noising import answer_of, noised
from engine import SafelightError
from tests.app.state.test_settling import PIECES, block, order_of

NAMED = PIECES | {50: "thought"}


def piece(token: int) -> str:
    return NAMED.get(token, chr(ord("a") + token % 26))


def changes(share: float, seed: int = 0):
    first, second = block([90, 50, 3, 4, 5], [0] * 5), block([6, 91, 7, 8], [0] * 4, index=1)
    tokens = np.arange(60, 80, dtype=np.int32)
    return noised(order_of(first, second, block([9], [0], index=2)), share, (seed,), tokens, {61}.__contains__, piece)


def test_all_of_the_thought_is_held_and_a_share_of_it_is_noise():
    first, second = changes(0.5)
    assert (first.place, second.place) == ((0, 0), (1, 0))
    pins = [token for _, token in (*first.pinned, *second.pinned)]
    assert [place for place, _ in first.pinned] == [0, 1, 2, 3, 4]
    assert [place for place, _ in second.pinned] == [0, 1]
    assert (pins[0], pins[1], pins[6]) == (90, 50, 91)
    assert sum(60 <= token < 80 for token in pins) == 2
    assert 61 not in pins
    assert changes(0.5) == changes(0.5) != changes(0.5, seed=1)
    assert sum(60 <= token < 80 for one in changes(1.0) for _, token in one.pinned) == 4


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(SafelightError, match="no token to make noise of"):
        noised(order_of(block([90, 3, 91], [0] * 3)), 1.0, (0,), np.array([1]), lambda _: True, piece)


def test_an_answer_is_read_without_its_thought():
    assert answer_of(np.array([90, 50, 3, 91, 2, 3], dtype=np.int32), piece) == "cd"
