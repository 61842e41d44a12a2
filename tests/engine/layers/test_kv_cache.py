"""The cache: cutting back, growing in pieces, room that stays in place, and a denoise that leaves no trace."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from engine import catalog
from engine.errors import SafelightError
from engine.layers.kv_cache import KERNEL_PIECE, PIECE, SLACK, KVCache
from engine.layers.masks import causal_mask
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.folder import ModelFolder
from tests.engine.tiny import CANVAS, FULL, SLIDING, WINDOW, network, tokens
from tests.looping import looped

LAYERS = {"both": (SLIDING, FULL), "sliding": (SLIDING, SLIDING), "full": (FULL, FULL)}
TOLERANCE = 2e-5


@pytest.fixture(params=LAYERS)
def model(request: pytest.FixtureRequest) -> DiffusionGemma:
    return network(layers=LAYERS[request.param])


def filled(model: DiffusionGemma, *pieces: torch.Tensor) -> KVCache:
    cache = model.new_cache()
    for piece in pieces:
        model.prefill(piece, cache)
    return cache


def assert_same_text(model: DiffusionGemma, one: KVCache, other: KVCache) -> None:
    """Both caches lead to the same prediction and the same continuation."""
    assert one.length == other.length
    canvas, more = tokens(CANVAS, 90), tokens(WINDOW + 3, 91)
    torch.testing.assert_close(model.denoise(canvas, one), model.denoise(canvas, other), atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(model.prefill(more, one), model.prefill(more, other), atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(model.denoise(canvas, one), model.denoise(canvas, other), atol=TOLERANCE, rtol=0)


@looped("sizes", [(30,), (1, 29), (10, 10, 10), (WINDOW, 22), (5,) * 6, (1,) * 30])
def test_text_in_pieces_is_the_text_in_one(model: DiffusionGemma, sizes: tuple[int, ...]) -> None:
    text = tokens(30)
    cache = model.new_cache()
    hidden = torch.cat([model.prefill(piece, cache) for piece in text.split(list(sizes))])
    whole = model.new_cache()
    torch.testing.assert_close(hidden, model.prefill(text, whole), atol=TOLERANCE, rtol=0)
    assert_same_text(model, cache, whole)


@looped("kept", [0, 1, WINDOW - 1, WINDOW, 30, 59, 60])
def test_cut_and_prefilled_again_equals_fresh(model: DiffusionGemma, kept: int) -> None:
    text, other = tokens(60), tokens(25, 1)
    cache = filled(model, text)
    cache.truncate(kept)
    assert cache.length == kept
    model.prefill(other, cache)
    assert_same_text(model, cache, filled(model, torch.cat([text[:kept], other])))


@pytest.mark.parametrize("cut", [0, 50, SLACK])
def test_a_long_text_can_be_cut_back_by_the_slack(model: DiffusionGemma, cut: int) -> None:
    text = tokens(2 * SLACK)
    cache = filled(model, *text.split(200))
    model.denoise(tokens(CANVAS), cache)  # lets go of what slid out of reach
    cache.truncate(len(text) - cut)
    assert_same_text(model, cache, filled(model, text[: len(text) - cut]))


@pytest.mark.parametrize("length", [-1, 100, 3 * SLACK + 1])
def test_cutting_to_an_impossible_length_cuts_nothing(length: int) -> None:
    """Negative, longer, or behind the tokens that sliding layers keep."""
    cache = filled(network(), *tokens(3 * SLACK).split(200))
    gone = f"no longer holds the {WINDOW - 1} tokens before token 100"
    with pytest.raises(SafelightError, match=gone if length == 100 else f"cannot cut a cache of {3 * SLACK} tokens"):
        cache.truncate(length)
    assert cache.length == 3 * SLACK


def test_full_layers_keep_everything() -> None:
    full = network(layers=LAYERS["full"])
    cache = filled(full, *tokens(3 * SLACK).split(200))
    cache.truncate(100)
    assert_same_text(full, cache, filled(full, tokens(3 * SLACK)[:100]))


@pytest.mark.parametrize("prefix", [3, WINDOW, 700])
def test_denoise_leaves_no_trace(model: DiffusionGemma, prefix: int) -> None:
    """Bit for bit: canvases of several lengths, in any order, read the cache only."""
    seen, untouched = filled(model, tokens(prefix)), filled(model, tokens(prefix))
    first = model.denoise(tokens(CANVAS, 5), seen)
    conditioning = first / 0.5
    for size in (1, CANVAS, 600, 3):
        model.denoise(tokens(size, size), seen, conditioning[:size] if size <= CANVAS else None)
    assert seen.length == prefix
    assert torch.equal(model.denoise(tokens(CANVAS, 5), seen), first)
    more = tokens(20, 6)
    assert torch.equal(model.prefill(more, seen), model.prefill(more, untouched))
    assert torch.equal(model.denoise(tokens(CANVAS, 5), seen), model.denoise(tokens(CANVAS, 5), untouched))


@looped("prefix, count", product([0, 3, WINDOW - 1, 40], [4, WINDOW - 1, WINDOW, 30]))
def test_causal_mask_against_a_loop(prefix: int, count: int) -> None:
    for window, reach in ((None, 10_000), (WINDOW, WINDOW)):
        shown = prefix if window is None else min(prefix, WINDOW - 1)
        expected = torch.zeros(count, shown + count, dtype=torch.bool)
        for query in range(count):
            for key in range(shown + count):
                distance = (shown + query) - key
                expected[query, key] = 0 <= distance < reach
        assert torch.equal(causal_mask(prefix, count, window, torch.device("cpu")), expected)


def test_bad_rows_of_tokens_are_refused() -> None:
    model = network(max_position_embeddings=20)
    cache = filled(model, tokens(15))
    for bad, message in (
        (torch.empty(0, dtype=torch.long), "non-empty"),
        (tokens(4)[None], "non-empty"),
        (torch.tensor([1, 128]), "token id 128 is outside the vocabulary of 128"),
        (torch.tensor([-1, 5]), "token id -1 is outside"),
        (tokens(6), "21 tokens long; this model has 20"),
    ):
        with pytest.raises(SafelightError, match=message):
            model.prefill(bad, cache)
    assert cache.length == 15
    with pytest.raises(SafelightError, match="token id 128"):
        model.denoise(torch.tensor([128]), cache)


@pytest.mark.parametrize("prefix", [1, 3, WINDOW, 700])
@torch.inference_mode()  # as the passes are that allocate the buffers
def test_spans_are_where_a_canvas_and_what_it_sees_lie(model: DiffusionGemma, prefix: int) -> None:
    cache = filled(model, *tokens(prefix).split(200))
    cache.reserve(prefix + CANVAS)
    spans = cache.spans(CANVAS)
    assert spans.keys() == {layer.kind for layer in model.config.layers}
    for index, layer in enumerate(model.config.layers):
        shape = (1, layer.num_key_value_heads, CANVAS, layer.head_dim)
        new_keys, new_values = torch.rand(shape), torch.rand(shape)
        seen_keys, seen_values = cache.writer(index)(new_keys, new_values)
        keys, values = cache.buffers(index)
        first, end = spans[layer.kind]
        assert torch.equal(keys[:, :, first:end], seen_keys)
        assert torch.equal(values[:, :, first:end], seen_values)
        assert torch.equal(keys[:, :, end - CANVAS : end], new_keys)
        assert end - first == CANVAS + (prefix if layer.kind == "full_attention" else min(prefix, WINDOW - 1))
    assert cache.length == prefix
    cache.reserve(prefix + 6 + CANVAS)
    ahead = cache.spans(CANVAS, 6)  # behind text that is still to be committed
    cache.advance(6)
    assert cache.spans(CANVAS) == ahead


@pytest.mark.parametrize(("piece", "context"), [(PIECE, 0), (PIECE, 900), (PIECE, 5000), (KERNEL_PIECE, 5000)])
def test_text_and_canvases_committed_with_the_next_find_room_in_place(context: int, piece: int) -> None:
    """Sees the real shape, without memory; sliding layers can still be cut back by the slack."""
    config = ModelFolder.open(catalog.resolve("26b-a4b", shapes=True)).config
    canvas, blocks = config.canvas_length, 20
    cache = KVCache(config, torch.device("meta"), torch.bfloat16, piece)
    cache.reserve(context + blocks * canvas)
    buffers = [cache.buffers(index) for index in range(len(config.layers))]
    for start in range(0, context, piece):
        count = min(piece, context - start)
        cache.spans(count)
        cache.advance(count)
    cache.spans(canvas)
    for _ in range(blocks - 1):
        cache.spans(canvas, canvas)
        cache.advance(canvas)
        assert cache._can_cut(max(0, cache.length - SLACK))
    for index, before in enumerate(buffers):
        assert all(one is other for one, other in zip(cache.buffers(index), before, strict=True))


def test_a_canvas_too_long_for_the_slack_makes_room_once() -> None:
    model = network()
    cache = filled(model, *tokens(3 * SLACK).split(200))
    cache.reserve(8 * SLACK)
    sizes = set()
    for _ in range(3):
        cache.spans(400, 400)
        for count in (400, 450):  # the canvas before, and what is asked next
            model.prefill(tokens(count), cache)
            sizes.add(tuple(layer.keys.shape[2] for layer in cache._layers))
    assert len(sizes) == 1
