"""The branches of a conversation through one cache: A·B, then A·C, then A·B·D, each as with a cache of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.events import CanvasCommitted, Event
from engine.layers.kv_cache import SLACK, KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding import test_reuse, test_step_program
from tests.engine.decoding.test_reuse import Counting, assert_same, reused, text
from tests.engine.decoding.test_step_program import OnDevice, tame
from tests.engine.tiny import CANVAS, WINDOW, network, tokens

B, C, D = tokens(9, 21), tokens(6, 22), tokens(7, 23)
LONGEST = SLACK - 2 * CANVAS  # of a second part that can be cut off again, with the two canvases read behind it
SHORT: dict[str, Any] = {"max_denoising_steps": 2}
LOGITS = 2e-5  # largest difference where the text was read in other pieces; 3e-6 measured


def assert_holds(cache: KVCache, model: DiffusionGemma, written: Tensor) -> None:
    """The cache holds this text, knows that it does, and a canvas sees in it what it sees in a new one."""
    assert cache.length == len(written)
    assert cache.keep_prefix([*written.tolist(), 0]) == len(written)
    fresh = model.new_cache()
    for piece in written.split(fresh.piece):
        model.prefill(piece, fresh)
    canvas = tokens(CANVAS, 9)
    one, other = (model.denoise(canvas, of) for of in (cache, fresh))
    torch.testing.assert_close(one, other, rtol=0, atol=LOGITS)


def kept(prompt: Tensor, events: list[Event]) -> Tensor:
    """What a cache holds after a run: the prompt and all committed canvases but the last."""
    committed = [torch.from_numpy(event.tokens).long() for event in events if isinstance(event, CanvasCommitted)]
    return torch.cat([prompt, *committed[:-1]])


@pytest.mark.parametrize(
    ("start", "second", "stays"),
    [
        (12, B, True),
        (WINDOW + SLACK + 60, tokens(LONGEST, 24), True),  # sliding layers have let go of the beginning
        (WINDOW + SLACK + 60, tokens(LONGEST + 1, 24), False),  # and here of a token in the window before the fork
    ],
)
def test_branches_through_one_cache_are_as_with_new_ones(start: int, second: Tensor, stays: bool) -> None:
    inner = network(1)
    model = Counting(inner)
    cache = model.new_cache()
    root = tokens(start, 20)

    one = torch.cat([root, second])
    first = test_reuse.run(model, one, cache, seed=1, **SHORT)
    assert_same(first, test_reuse.run(model, one, seed=1, **SHORT))
    assert_holds(cache, inner, kept(one, first))

    other = torch.cat([root, C])
    events = test_reuse.run(model, other, cache, seed=2, **SHORT)
    assert reused(events) == (len(root) if stays else 0)
    assert_same(events, test_reuse.run(model, other, seed=2, **SHORT))
    assert_holds(cache, inner, kept(other, events))

    again = torch.cat([one, text(first), D])
    events = test_reuse.run(model, again, cache, seed=3, **SHORT)
    assert reused(events) == len(root)  # of the second branch nothing else belongs to this one
    assert_same(events, test_reuse.run(model, again, seed=3, **SHORT))
    assert_holds(cache, inner, kept(again, events))


@pytest.mark.parametrize("start", [12, WINDOW + SLACK + 60])
def test_branches_through_one_cache_by_step_programs(start: int) -> None:
    """Where a canvas is committed in the pass of the next one's first step."""
    model = OnDevice(tame())
    cache = model.network.new_cache()
    root = tokens(start, 20)
    one = torch.cat([root, B])
    first = test_step_program.run(model, one, cache, **SHORT)
    for prompt in (one, torch.cat([root, C]), torch.cat([one, text(first), D])):
        events = first if prompt is one else test_step_program.run(model, prompt, cache, **SHORT)
        if prompt is not one:
            assert reused(events) == len(root)
        wanted = test_step_program.run(OnDevice(model.network), prompt, **SHORT)
        assert [type(event) for event in events] == [type(event) for event in wanted]
        assert_same(events, wanted)
        assert_holds(cache, model.network, kept(prompt, events))


def test_a_branch_that_is_gone_from_the_cache_is_not_taken_for_the_one_in_it() -> None:
    """A·C is as long as A·B was: of the two only the tokens differ."""
    model = Counting(network(1))
    cache = model.new_cache()
    root = tokens(12, 20)
    one, other = torch.cat([root, B]), torch.cat([root, (B + 1) % 128])
    test_reuse.run(model, one, cache, **SHORT)
    test_reuse.run(model, other, cache, **SHORT)
    model.read.clear()
    events = test_reuse.run(model, one, cache, **SHORT)
    assert reused(events) == len(root)
    assert model.read[0] == len(B)
    assert_same(events, test_reuse.run(model, one, **SHORT))
