"""A second turn reads only what is new, and says the same as a run that read everything.

Where the text was read in the same pieces, runs agree bit for bit. In other pieces a matrix product has another number
of rows, for which the CPU's library adds in another order: entropies of a canvas's first step then differ in the last
digits of fp32 (1e-6 measured). Self-conditioning of these random networks amplifies that fourfold a step; tokens stay
the same.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import CanvasCommitted, GenerationConfig, GenerationFinished, PrefillFinished, SafelightError, StepFinished
from engine.decoding.generate import generate
from engine.events import Event
from engine.layers.kv_cache import SLACK, KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.seen import end_of, facts
from tests.engine.tiny import CANVAS, FULL, network, tokens

TOLERANCE, AMPLIFIED = 5e-6, 6.0  # nats at a canvas's first step; times so much at each further one
FIRST, NEW = tokens(12, 3), tokens(7, 4)
CONFIG = GenerationConfig(max_new_tokens=30, max_denoising_steps=4, eos_token_ids=(), entropy_bound=6.0)


class Counting:
    """A network that notes how many tokens each causal pass reads."""

    def __init__(self, inner: DiffusionGemma) -> None:
        self.inner = inner
        self.read: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        self.read.append(len(ids))
        return self.inner.prefill(ids, cache)


@pytest.fixture
def model() -> Counting:
    return Counting(network(1))


def run(model: Any, prompt: Tensor, cache: KVCache | None = None, seed: int = 0, **changes: Any) -> list[Event]:
    return list(generate(model, prompt, CONFIG.replace(**changes), seed, cache=cache))


def reused(events: list[Event]) -> int:
    first = events[0]
    assert isinstance(first, PrefillFinished)
    return first.reused_tokens


def text(events: list[Event]) -> Tensor:
    last = end_of(events)
    return torch.from_numpy(last.tokens).long()


def assert_same(events: list[Event], other: list[Event]) -> None:
    """Holds the tokens of every step to be equal, and entropies within the tolerance."""
    steps, others = ([e for e in row if isinstance(e, StepFinished)] for row in (events, other))
    assert len(steps) == len(others) > 0
    for one, two in zip(steps, others, strict=True):
        np.testing.assert_allclose(one.entropy, two.entropy, atol=TOLERANCE * AMPLIFIED**one.step, rtol=0)
        assert one.next_canvas.tolist() == two.next_canvas.tolist()
        assert one.argmax_canvas.tolist() == two.argmax_canvas.tolist()
    assert text(events).tolist() == text(other).tolist()


def test_a_second_turn_reads_only_what_is_new(model: Counting) -> None:
    cache = model.new_cache()
    first = run(model, FIRST, cache)
    assert model.read == [12, CANVAS, CANVAS]  # the last canvas was never read
    model.read.clear()
    second = torch.cat([FIRST, text(first), NEW])
    events = run(model, second, cache, seed=5)
    assert reused(events) == 12 + 2 * CANVAS
    assert model.read[0] == CANVAS + len(NEW)
    assert events[0].prompt_tokens == len(second)  # type: ignore[union-attr]
    assert_same(events, run(model, second, seed=5))


@pytest.mark.parametrize("place", [0, 11, 20])
def test_an_edited_turn_is_read_from_the_edit_on(model: Counting, place: int) -> None:
    cache = model.new_cache()
    conversation = torch.cat([FIRST, text(run(model, FIRST, cache)), NEW])
    edited = conversation.clone()
    edited[place] = (edited[place] + 1) % 128
    model.read.clear()
    events = run(model, edited, cache)
    assert reused(events) == place
    assert sum(model.read) - 2 * CANVAS == len(edited) - place
    assert_same(events, run(model, edited))


def test_a_lost_window_means_reading_afresh(model: Counting) -> None:
    long = tokens(3 * SLACK, 8)
    other = torch.cat([long[:100], NEW])
    cache = model.new_cache()
    run(model, long, cache, max_new_tokens=CANVAS)
    model.read.clear()
    events = run(model, other, cache, max_new_tokens=CANVAS)
    assert reused(events) == 0
    assert model.read == [len(other)]
    assert facts(events) == facts(run(model, other, max_new_tokens=CANVAS))

    full = Counting(network(1, layers=(FULL, FULL)))  # has no window to lose
    cache = full.new_cache()
    run(full, long, cache, max_new_tokens=CANVAS)
    assert reused(run(full, other, cache, max_new_tokens=CANVAS)) == 100


def test_a_cache_of_another_model_is_refused(model: Counting) -> None:
    cache = model.new_cache()
    run(model, FIRST, cache)
    twin = Counting(network(2))  # same shape, other weights
    for wrong, given in ((twin, cache), (Counting(network(1, vocab_size=64)), model.new_cache())):
        with pytest.raises(SafelightError, match=r"belongs to another model; make one with new_cache\(\)") as error:
            run(wrong, FIRST % 64, given)
        assert "\n" not in str(error.value)
    assert reused(run(model, FIRST, cache)) == len(FIRST)  # and was not harmed
    del model
    with pytest.raises(SafelightError, match="another model"):
        run(twin, FIRST, cache)


@pytest.mark.parametrize(("after", "how"), [(0, "cancel"), (5, "cancel"), (4, "close"), (9, "close")])
def test_a_stopped_run_leaves_a_good_cache(model: Counting, after: int, how: str) -> None:
    cache, flag, seen = model.new_cache(), threading.Event(), []
    events = generate(model, FIRST, CONFIG, 0, flag, cache)
    for event in events:
        seen.append(event)
        if sum(isinstance(e, StepFinished) for e in seen) == after:
            flag.set()
            if how == "close":
                events.close()  # type: ignore[attr-defined]
                break
    committed = [torch.from_numpy(e.tokens).long() for e in seen if isinstance(e, CanvasCommitted)]
    assert cache.length == len(FIRST) + len(committed) * CANVAS
    second = torch.cat([FIRST, *committed, NEW])
    again = run(model, second, cache, seed=2)
    assert reused(again) == len(second) - len(NEW)
    assert_same(again, run(model, second, seed=2))


def test_a_long_prompt_is_read_in_the_cache_s_pieces_and_stops_between_them(model: Counting) -> None:
    piece = 60
    long = tokens(2 * piece + 5, 9)
    cache, flag = KVCache(model.config, model.device, model.dtype, piece), threading.Event()
    flag.set()
    events = list(generate(model, long, CONFIG, 0, flag, cache))
    assert [type(event) for event in events] == [GenerationFinished]
    assert events[0].reason == "cancelled"  # type: ignore[union-attr]
    assert cache.length == piece
    model.read.clear()
    again = run(model, long, cache, max_new_tokens=CANVAS)
    assert model.read == [piece, 5]
    assert reused(again) == piece
    fresh = KVCache(model.config, model.device, model.dtype, piece)
    assert facts(again[1:]) == facts(run(model, long, fresh, max_new_tokens=CANVAS)[1:])  # the same pieces


def test_a_pass_that_fails_midway_leaves_a_good_cache(model: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = model.new_cache()
    run(model, FIRST, cache, max_new_tokens=CANVAS)
    longer = torch.cat([FIRST, NEW])
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> Tensor:
            raise MemoryError

        patch.setattr(model.inner.layers[1], "forward", fail)
        with pytest.raises(MemoryError):
            run(model, longer, cache)
    assert cache.length == len(FIRST)
    events = run(model, longer, cache)
    assert reused(events) == len(FIRST)
    assert_same(events, run(model, longer))
