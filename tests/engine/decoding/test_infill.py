"""Infilling: marked spans are written anew, everything else stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    Mark,
    PrefillFinished,
    SafelightError,
    StepFinished,
    generate,
    rewrite_marked,
)
from engine.layers.kv_cache import KVCache
from engine.types import Tokens
from tests.engine.decoding.seen import end_of, facts, steps_of
from tests.engine.decoding.test_reuse import Counting
from tests.engine.tiny import CANVAS, all_but, network, tokens

PROMPT, PAD, EOS = tokens(12, 3), 6, 111
CONFIG = GenerationConfig(
    max_new_tokens=30, max_denoising_steps=4, eos_token_ids=(EOS,), pad_token_id=PAD, entropy_bound=6.0
)


@pytest.fixture
def model() -> Counting:
    return Counting(network(1))


def settled(model: Any, cache: KVCache | None = None) -> list[Tokens]:
    events = generate(model, PROMPT, CONFIG, 4, cache=cache)
    rows = [event.tokens for event in events if isinstance(event, CanvasCommitted)]
    assert len(rows) == 3
    assert not np.isin((EOS, PAD), np.concatenate(rows)).any()
    return rows


def write(
    model: Any, rows: Sequence[Tokens], *marks: Mark, config: GenerationConfig = CONFIG, seed: int = 9, **options: Any
) -> list[Event]:
    return list(rewrite_marked(model, PROMPT, config, seed, rows, marks, **options))


def test_a_text_of_small_canvases_that_began_pinned_keeps_their_length(model: Counting) -> None:
    config = CONFIG.replace(smallest_canvas=3, max_new_tokens=4, pinned=((1, 20),))
    rows = [event.tokens for event in generate(model, PROMPT, config, 4) if isinstance(event, CanvasCommitted)]
    assert [len(row) for row in rows] == [6]
    events = write(model, rows, Mark(0, 3, 5), config=config)
    [written] = [event.tokens for event in events if isinstance(event, CanvasCommitted)]
    assert np.flatnonzero(written != rows[0]).tolist() in ([3], [4], [3, 4], [])
    assert len(written) == 6


def result(events: Sequence[Event]) -> GenerationFinished:
    last = end_of(events)
    return last


def ended(rows: Sequence[Tokens], block: int, at: int) -> list[Tokens]:
    """The rows up to an end token."""
    found = [row.copy() for row in rows[: block + 1]]
    found[block][at:] = PAD
    found[block][at] = EOS
    return found


@pytest.mark.parametrize(("block", "span"), [(0, (4, 5)), (1, (0, 3)), (2, (7, 10)), (2, (0, 10))])
def test_only_the_marked_span_changes(model: Counting, block: int, span: tuple[int, int]) -> None:
    cache = model.new_cache()
    rows = settled(model, cache)
    model.read.clear()
    events = write(model, rows, Mark(block, *span), cache=cache)
    assert model.read == []
    assert cache.length == len(PROMPT) + block * CANVAS
    inside = np.zeros(CANVAS, dtype=bool)
    inside[slice(*span)] = True
    kinds = [type(event) for event in events]
    assert kinds == [PrefillFinished, CanvasStarted, *[StepFinished] * 4, CanvasCommitted, GenerationFinished]
    start = events[1]
    assert isinstance(start, CanvasStarted)
    assert (start.pinned_mask == ~inside).all()
    assert (start.canvas != rows[block])[inside].any()
    for event in events:
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted):
            assert event.block_index == block
            for name in ("canvas", "argmax_canvas", "candidates", "next_canvas", "tokens"):
                if hasattr(event, name):
                    assert (getattr(event, name) == rows[block])[~inside].all(), name
    text = result(events).tokens.reshape(3, CANVAS)
    for other in {0, 1, 2} - {block}:
        assert text[other].tolist() == rows[other].tolist()
    assert text[block].tolist() == events[-2].tokens.tolist()  # type: ignore[union-attr]
    assert (result(events).reason, result(events).blocks, result(events).steps) == ("length", 3, 4)
    assert facts(events[1:]) == facts(write(model, rows, Mark(block, *span))[1:])
    assert facts(events[1:]) != facts(write(model, rows, Mark(block, *span), seed=10)[1:])


def test_several_blocks_one_after_the_other(model: Counting) -> None:
    cache = model.new_cache()
    rows = settled(model, cache)
    model.read.clear()
    marks = (Mark(2, 0, 2), Mark(0, 3, 5), Mark(2, 8, 9))
    events = write(model, rows, *marks, cache=cache)
    assert model.read == [CANVAS, CANVAS]  # the new first block, and the second one behind it
    commits = [event for event in events if isinstance(event, CanvasCommitted)]
    assert [event.block_index for event in commits] == [0, 2]
    assert sum(isinstance(event, PrefillFinished) for event in events) == 1
    alone = write(model, rows, Mark(0, 3, 5))
    assert commits[0].tokens.tolist() == alone[-2].tokens.tolist()  # type: ignore[union-attr]
    changed = commits[1].tokens != rows[2]
    assert not changed[[2, 3, 4, 5, 6, 7, 9]].any()
    text = result(events).tokens.reshape(3, CANVAS)
    for at, row in enumerate((commits[0].tokens, rows[1], commits[1].tokens)):
        assert text[at].tolist() == row.tolist()


@pytest.mark.parametrize("span", [(2, 6), (5, 7), (4, 10), (8, 9)])
def test_where_the_text_ends(model: Counting, span: tuple[int, int]) -> None:
    """The end token is at position 6 of the second block, padding behind it."""
    rows = ended(settled(model), 1, 6)
    events = write(model, rows, Mark(1, *span))
    new = events[-2]
    assert isinstance(new, CanvasCommitted)
    at = [place for place in range(CANVAS) if not span[0] <= place < span[1]]
    assert new.tokens[at].tolist() == rows[1][at].tolist()
    length = 6 if span[1] <= 6 or span[0] > 6 else max(7, span[1])  # the model does not write the end token itself
    assert new.text_length == length
    assert result(events).tokens.tolist() == np.concatenate([rows[0], new.tokens[:length]]).tolist()
    assert result(events).reason == ("eos" if length == 6 else "length")
    again = write(model, [rows[0], new.tokens], Mark(0, 1, 2))
    assert len(result(again).tokens) == CANVAS + length


def test_no_end_token_comes_where_the_text_goes_on(model: Counting) -> None:
    rows = settled(model)
    few = CONFIG.replace(banned_tokens=all_but(EOS, 50), t_max=3.0, t_min=3.0)
    for block in (0, 2):
        middle = write(model, rows, Mark(block, 1, 9), config=few)
        assert all(EOS not in event.candidates for event in steps_of(middle))
        assert len(result(middle).tokens) == 30
    seen = {result(write(model, rows, Mark(2, 1, 10), config=few, seed=seed)).reason for seed in range(6)}
    assert "eos" in seen
    only = CONFIG.replace(banned_tokens=all_but(EOS))
    tail = write(model, rows, Mark(2, 4, 10), config=only)
    assert tail[-2].tokens.tolist() == [*rows[2][:4], EOS, *[PAD] * 5]  # type: ignore[union-attr]
    assert (result(tail).reason, len(result(tail).tokens)) == ("eos", 24)


def test_banned_tokens_stay_where_they_stood(model: Counting) -> None:
    rows = settled(model)
    banned = tuple({*rows[1].tolist(), *range(60)})
    events = write(model, rows, Mark(1, 2, 6), config=CONFIG.replace(banned_tokens=banned))
    new = events[-2].tokens  # type: ignore[union-attr]
    assert not set(new[2:6].tolist()) & set(banned)
    assert new[[0, 1, 6, 7, 8, 9]].tolist() == rows[1][[0, 1, 6, 7, 8, 9]].tolist()


@pytest.mark.parametrize(
    ("marks", "blocks", "message"),
    [
        ([], 3, "nothing is marked"),
        ([(3, 0, 1)], 3, "block 3 is not finished; the text has 3 blocks"),
        ([(1, 5, 11)], 3, "the marked position 10 is outside the canvas of 10 tokens"),
        ([(0, 0, 1)], 0, "no block is finished yet"),
        ([(0, 3, 3)], 3, "the marked span is empty"),
        ([(0, -1, 3)], 3, "must be a whole number between 0 and 16777216, not -1"),
    ],
)
def test_marks_that_cannot_be(model: Counting, marks: list[tuple[int, int, int]], blocks: int, message: str) -> None:
    with pytest.raises(SafelightError, match=message) as error:
        write(model, settled(model)[:blocks], *(Mark(*mark) for mark in marks))
    assert "\n" not in str(error.value)
