"""The order in which a run settles, by hand and on a recorded run."""

from __future__ import annotations

import numpy as np
import pytest

import engine
from app.state.run.replay import Frame, Replay
from app.state.run.settling import BlockOrder, RunOrder, block_order, thinking
from engine import Recording

PIECES = {90: "<|channel>", 91: "<channel|>"}


def piece(token: int) -> str:
    return PIECES.get(token, chr(ord("a") + token % 26))


def block(tokens: list[int], settled: list[int], index: int = 0, **changes: object) -> BlockOrder:
    count = len(tokens)
    values = {
        "index": index,
        "steps": max(settled) + 1,
        "committed": True,
        "tokens": np.array(tokens, dtype=np.int32),
        "settled_at": np.array(settled, dtype=np.int32),
        "free": np.ones(count, dtype=np.bool_),
        "entropy": np.zeros(count, dtype=np.float32),
        "runners": None,
        "shares": None,
    }
    return BlockOrder(**values | changes)


def order_of(*blocks: BlockOrder) -> RunOrder:
    return RunOrder(blocks, piece)


def test_positions_and_their_centre_by_step():
    one = block([2, 3, 4, 5, 6], [0, 0, 2, 2, 2])
    assert one.counts.tolist() == [2, 0, 3]
    assert one.centres[[0, 2]].tolist() == [0.125, 0.75]
    assert np.isnan(one.centres[1])


def test_what_was_given_settles_nowhere():
    free = np.array([True, False, True])
    assert block([2, 3, 4], [0, 0, 1], free=free).counts.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("settled", "wanted"), [([0, 1, 2, 3], 1.0), ([3, 2, 1, 0], -1.0), ([1, 0, 0, 1], 0.0), ([0, 0, 0, 0], None)]
)
def test_left_to_right_is_a_rank_correlation(settled, wanted):
    found = order_of(block([2, 3, 4, 5], settled)).correlation
    assert found == (wanted if wanted is None else pytest.approx(wanted))


def test_blocks_are_ranked_each_for_itself():
    found = order_of(block([2, 3], [1, 0]), block([2, 3], [1, 0], index=1)).correlation
    assert found == pytest.approx(-1)


def test_the_thought_is_between_the_tokens_of_its_channel():
    inside, marks = thinking(np.array([2, 90, 3, 4, 91, 5, 90, 6], dtype=np.int32), piece)
    assert np.flatnonzero(inside).tolist() == [2, 3, 7]
    assert np.flatnonzero(marks).tolist() == [1, 4, 6]
    assert thinking(np.zeros(0, dtype=np.int32), piece)[0].tolist() == []


def test_an_answer_before_its_thought():
    order = order_of(block([90, 3, 4, 5, 91, 6, 7], [0, 1, 5, 6, 0, 2, 3]))
    assert order.has_thought
    assert order.settled(order.answering) == Frame(0, 3)
    assert order.settled(order.thinking) == Frame(0, 6)
    assert order.later_thought == pytest.approx(2 / 3)


def test_a_thought_that_goes_on_in_the_next_block():
    order = order_of(block([90, 3], [0, 1]), block([4, 91, 5], [1, 0, 2], index=1))
    assert order.thinking_of(1).tolist() == [True, False, False]
    assert order.settled(order.thinking) == Frame(1, 1)
    assert order.settled(order.answering) == Frame(1, 2)
    assert order.later_thought == 0


def test_what_is_left_in_doubt():
    runners = np.array([7, 8, 9, 10], dtype=np.int32)
    shares = np.array([0.1, 0.4, 0.0, 0.4], dtype=np.float32)
    entropy = np.array([0.1, 0.1, 0.9, 0.1], dtype=np.float32)
    free = np.array([True, True, True, False])
    one = block([2, 3, 4, 5], [0] * 4, runners=runners, shares=shares, entropy=entropy, free=free)
    found = order_of(one).doubts
    assert [(doubt.position, doubt.token, doubt.runner) for doubt in found] == [(1, 3, 8), (2, 4, 9)]
    assert not order_of(block([2], [0], entropy=np.ones(1), committed=False)).doubts


def test_a_recorded_run():
    entry = next(one for one in engine.gallery() if "settle" in one.title)
    run: Recording = engine.open_trace(entry.path)
    replay = Replay(run)
    record = replay.record(0)
    one = block_order(record)
    assert one.counts.sum() == one.free.sum()
    assert len(one.tokens) == record.text_length
    order = RunOrder([one], run.piece)
    assert not order.has_thought
    assert order.correlation is not None
    last = record.top_probabilities[-1, :, 1]
    assert all(last[doubt.position] == doubt.share for doubt in order.doubts)
    assert order.doubts
