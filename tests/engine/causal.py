"""Tiny random causal networks with masks, what they predict without a cache, and runs of them that are looked at."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine import CanvasCommitted, CanvasStarted, GenerationFinished, StepFinished
from engine.config import LayerConfig
from engine.decoding.performing import perform
from engine.decoding.protocols import Decoding, Pass
from engine.events import Event, PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.trace.index import Order

POSITIONS = 96
CODES = {PrefillFinished: b"PREF", CanvasStarted: b"CANV", StepFinished: b"STEP", CanvasCommitted: b"COMM"}


def masked_network(seed: int, sharpness: float = 1.0, depth: int = 2, **changes: Any) -> CausalNetwork:
    """A random network of fp32, whose mask is its last token; ``sharpness`` multiplies its logits."""
    layer = LayerConfig("full_attention", 8, 2, 10_000.0, 1.0)
    shape = {
        "vocab_size": 9, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
        "layers": (layer,) * depth, "sliding_window": 1, "canvas_length": 5,
        "num_experts": 0, "top_k_experts": 0, "moe_intermediate_size": 0, "max_position_embeddings": POSITIONS,
    } | changes  # fmt: skip
    made = CausalNetwork(CausalConfig(mask_token_id=shape["vocab_size"] - 1, **shape)).requires_grad_(False).eval()
    draws = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5, generator=draws)
        else:
            parameter.uniform_(0.6, 1.4, generator=draws)
    made.norm_weight.mul_(sharpness)
    return made


@torch.inference_mode()
def plain_logits(network: CausalNetwork, text: Sequence[int], block: Sequence[int] = ()) -> Tensor:
    """Logits (T, V) of a text that is read causally and a block behind it that sees all; no cache."""
    allowed = torch.ones(len(text) + len(block), len(text) + len(block), dtype=torch.bool).tril()
    allowed[len(text) :] = True
    return network.head(network.run(torch.tensor([[*text, *block]]), torch.arange(len(allowed)), allowed)[0])


def run_of(network: CausalNetwork, decoding: Decoding[None], cancel: threading.Event, passes: int) -> list[Event]:
    """A run's events; ``cancel`` is set after so many passes behind the prompt's, and no other one comes then."""
    events, done = list[Event](), -1
    for item in decoding:
        if isinstance(item, Pass):
            assert not cancel.is_set()
            perform(network, item)  # type: ignore[arg-type]
        else:
            events.append(item)
        done += isinstance(item, PrefillFinished) or (isinstance(item, Pass) and done >= 0)
        if done >= passes:
            cancel.set()
    return events


def tokens_by_pass(events: Sequence[Event], length: int, mask: int, *, edits: bool = False) -> list[dict[int, int]]:
    """Returns the writes of each pass, place -> token, by the steps of a whole run; asserts that its events fit.

    Args:
        edits: written tokens may change.
    """
    order, written, text = Order(False), list[dict[int, int]](), dict[int, int]()
    tokens: list[int] = []
    for event in events[:-1]:
        block = getattr(event, "block_index", -1)
        assert order.allows(CODES[type(event)], block, getattr(event, "step", -1))
        if isinstance(event, CanvasStarted):
            assert event.filler == mask
        elif isinstance(event, StepFinished):
            written += [{}] if event.seconds else []  # without: the pass before it, which went on into this block
            cells = zip(event.accepted_mask.tolist(), event.next_canvas.tolist(), strict=True)
            for place, (is_written, token) in enumerate(cells, block * length):
                assert text.get(place, token) == token or (edits and is_written)  # what is written stays
                assert is_written or token == mask
                if is_written and text.get(place) != token:
                    text[place] = written[-1][place] = token
        elif isinstance(event, CanvasCommitted):
            tokens += event.tokens[: event.text_length].tolist()
    end = events[-1]
    assert isinstance(end, GenerationFinished)
    assert (end.tokens.tolist(), end.steps) == (tokens, len(written))
    return written


def check_cache(network: CausalNetwork, cache: KVCache, ids: Sequence[int]) -> None:
    """See that a cache holds a text, and the keys and values of a fresh prefill."""
    assert cache.shared(ids) == cache.length == len(ids)
    fresh = network.new_cache()
    if ids:
        network.prefill(torch.tensor(ids), fresh)
    for layer in range(len(network.layers) if ids else 0):
        for found, wanted in zip(cache.buffers(layer), fresh.buffers(layer), strict=True):
            assert (found - wanted)[:, :, : cache.length].abs().max() < 1e-5
