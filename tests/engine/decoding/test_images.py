"""Runs behind prompts with images: parts that are read again, and decoders that read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine import GenerationConfig, GenerationFinished, PrefillFinished, SafelightError
from engine.decoding.generate import fork, generate
from engine.decoding.performing import perform, perform_together
from engine.decoding.protocols import Denoise, Pass, Prefill
from engine.events import Event
from engine.layers.images import ImageRows
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.prompt import Prompt
from tests.engine.decoding.seen import end_of, of_kind
from tests.engine.tiny import CANVAS, VISION, WINDOW, network, tokens

CONFIG = GenerationConfig(max_new_tokens=20, max_denoising_steps=3, eos_token_ids=())
PIECE = 6
SIZES = (11, 3)  # tokens of the two images: one is longer than a piece and the window


@pytest.fixture(scope="module")
def model() -> DiffusionGemma:
    return network(1, vision=VISION)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.diffusion_gemma.network.PIECE", PIECE)


def prompt(first: str = "a", second: str = "b", tail: int = 4) -> Prompt:
    """Text, an image, text, an image, text; an image's rows follow from its name."""
    ids, images = tokens(8).tolist(), list[ImageRows]()
    for name, size in zip((first, second), SIZES, strict=True):
        rows = torch.randn(size, 32, generator=torch.Generator().manual_seed(ord(name)))
        images.append(ImageRows(len(ids) + 1, rows, name))
        ids += [VISION.begin_token_id, *[VISION.image_token_id] * size, VISION.end_token_id]
    return Prompt((*ids, *tokens(tail, 9).tolist()), tuple(images))


def run(model: Any, given: Prompt, cache: KVCache | None = None, **changes: Any) -> tuple[int, list[int]]:
    """Returns how many tokens were used again, and the text."""
    events = list(generate(model, given, CONFIG.replace(**changes), cache=cache))
    begun, ended = of_kind(events, PrefillFinished)[0], end_of(events)
    return begun.reused_tokens, ended.tokens.tolist()


def test_an_image_is_read_in_one_piece(model: DiffusionGemma) -> None:
    cache, given = model.new_cache(), prompt()
    cache.images = given.images
    assert WINDOW < SIZES[0] > PIECE
    assert cache.pieces(len(given)) == [6, 3, 11, 2, 3, 5]
    whole = model.prefill(torch.tensor(given.ids), cache)
    apart = model.new_cache()
    apart.images = given.images
    pieces = torch.tensor(given.ids).split(apart.pieces(len(given)))
    torch.testing.assert_close(torch.cat([model.prefill(piece, apart) for piece in pieces]), whole, atol=2e-5, rtol=0)


def test_what_a_cache_holds_is_used_again_for_the_same_image_alone(model: DiffusionGemma) -> None:
    cache, given = model.new_cache(), prompt()
    read, text = run(model, given, cache)
    assert (read, run(model, given, cache)) == (0, (len(given), text))
    assert run(model, prompt(tail=9), cache)[0] == len(given)
    cut = given.images[1].start
    assert run(model, prompt(second="c"), cache)[0] == cut  # the begin token still is the same
    assert run(model, prompt(first="d", second="c"), cache)[0] == given.images[0].start
    assert run(model, given, model.new_cache())[1] == text != run(model, prompt(second="c"))[1]
    # The same ids as plain tokens are another text.
    assert run(model, Prompt(given.ids), cache)[0] == given.images[0].start


def test_every_decoder_reads_the_images(model: DiffusionGemma) -> None:
    given, other = prompt(), prompt(first="e")
    for changes in ({"decoder": "autoregressive"}, {"token_thoughts": True}):
        cache = model.new_cache()
        used, text = run(model, given, cache, **changes)
        assert used == 0
        assert cache.shared(given.keys) == len(given)
        assert run(model, other, **changes)[1] != text


def test_a_fork_without_a_change_is_the_run(model: DiffusionGemma) -> None:
    given, events = prompt(), list(generate(model, prompt(), CONFIG))
    blocks = [event.tokens for event in events if hasattr(event, "text_length")]
    steps = [event.steps for event in events if hasattr(event, "text_length")]
    again: list[Event] = list(fork(model, given, CONFIG, 0, blocks[:1], steps[:1], ()))
    assert isinstance(again[-1], GenerationFinished)
    assert isinstance(events[-1], GenerationFinished)
    np.testing.assert_array_equal(again[-1].tokens, events[-1].tokens)


def test_among_other_runs_an_image_is_read_alone() -> None:
    made = network(1, vision=VISION, intermediate_size=64)  # rows of which several runs may be joined
    given = prompt()

    def passes() -> list[Pass]:
        cache, text, canvas = made.new_cache(), made.new_cache(), made.new_cache()
        cache.images = given.images
        at = given.images[0].start
        made.prefill(torch.tensor(given.ids[:at]), cache)
        image = Prefill(torch.tensor(given.ids[at : given.images[0].end]), cache)
        made.prefill(tokens(9), canvas)
        return [image, Prefill(tokens(13), text), Denoise(tokens(CANVAS), canvas, None)]

    together, alone = passes(), passes()
    perform_together(made, together)
    for one in alone:
        perform(made, one)
    for one, other in zip(together, alone, strict=True):
        assert isinstance(one, Prefill | Denoise)
        assert isinstance(other, Prefill | Denoise)
        found, expected = (made.denoise(tokens(CANVAS, 5), each.cache) for each in (one, other))
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=0)


def test_what_cannot_be_is_refused(model: DiffusionGemma) -> None:
    given = prompt()
    with pytest.raises(SafelightError, match="this model cannot see images"):
        list(generate(network(1), given, CONFIG))
    with pytest.raises(SafelightError, match="must not overlap, and a token must follow the last"):
        Prompt(given.ids[: given.images[1].end], given.images)
    with pytest.raises(SafelightError, match="must not overlap"):
        Prompt(given.ids, given.images[::-1])
    wrong = ImageRows(2, torch.zeros(3, 31), "of another model")
    with pytest.raises(SafelightError, match=r"rows of the shape \(3, 31\); they stand for 3 tokens of 32 numbers"):
        list(generate(model, Prompt(given.ids, (wrong,)), CONFIG))
