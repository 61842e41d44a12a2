"""Texts and canvases of several sequences in one pass: all their rows go through the layers together.

Attention alone is each sequence's own. What comes out is what each comes to alone; on a CPU bit for bit, and where that
cannot be had they are not joined: see ``joins``.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import kernels
from engine.layers.adapted import addition
from engine.layers.kv_cache import KVCache
from engine.layers.packed_linear import packed_weights
from engine.layers.segments import Segment, Segments, unextended
from engine.models.diffusion_gemma.network import DiffusionGemma

# By measurement with MKL and AVX-512: a product rounds by its number of rows where it has fewer rows, or fewer results
# a row; and GELU by the place of a number where rows are no multiple of two vectors.
FEWEST_ROWS, NARROWEST, VECTORS = 4, 16, 32


@dataclass(frozen=True, eq=False)
class Rows:
    """What a sequence adds to a pass: tokens (T,) behind its cache's text."""

    ids: Tensor
    cache: KVCache
    self_conditioning_logits: Tensor | None = None  # of a canvas, as ``denoise`` takes them


@torch.inference_mode()
def joint_pass(network: DiffusionGemma, texts: Sequence[Rows], canvases: Sequence[Rows]) -> list[Tensor]:
    """``prefill`` of the texts and ``denoise`` of the canvases, each with a cache of its own.

    Returns:
        Logits (C, V) fp32 of each canvas, views of one tensor.

    Raises:
        SafelightError: as those two, before any cache has grown.
    """
    # Those without logits first: their embeddings skip the MLP of self-conditioning.
    order = sorted(range(len(canvases)), key=lambda place: canvases[place].self_conditioning_logits is not None)
    ids = [network.checked_text(rows.ids, rows.cache) for rows in texts]
    ids += [network.checked(canvases[place].ids) for place in order]
    each = [*texts, *(canvases[place] for place in order)]
    text_rows = sum(len(part) for part in ids[: len(texts)])

    x = _embedded(network, torch.cat(ids), text_rows, [rows.self_conditioning_logits for rows in each[len(texts) :]])
    starts = [rows.cache.length for rows in each]
    places = [torch.arange(start, start + len(part)) for start, part in zip(starts, ids, strict=True)]
    ropes = network.ropes(torch.cat(places).to(network.device), x.dtype)
    masks = [network.causal_masks(start, len(part)) for start, part in zip(starts, ids[: len(texts)], strict=False)]
    for index, (block, layer) in enumerate(zip(network.layers, network.config.layers, strict=True)):
        segments = [
            Segment(len(part), masks[place][layer.kind] if place < len(texts) else None, rows.cache.writer(index))
            for place, (rows, part) in enumerate(zip(each, ids, strict=True))
        ]
        x = block(x, ropes[layer], Segments(tuple(segments)), unextended, text_rows)
    for rows, part in zip(texts, ids, strict=False):
        rows.cache.advance(len(part))
    if not canvases:
        return []
    sizes = [len(part) for part in ids[len(texts) :]]
    logits = torch.split(network.head(network.norm(x[0, text_rows:])), sizes)
    return [logits[order.index(place)] for place in range(len(canvases))]


def _embedded(network: DiffusionGemma, ids: Tensor, text_rows: int, fed: Sequence[Tensor | None]) -> Tensor:
    """Embeddings (1, T, H) of text and then canvases (T,); ``fed``: each canvas's logits, None for the first ones."""
    embedded = network.embed(ids)[None]
    shares = [torch.softmax(logits, dim=-1, dtype=torch.float32) for logits in fed if logits is not None]
    soft = [network.soft_embedding(share) for share in shares]
    edge = len(ids) - sum(len(rows) for rows in soft)
    parts = [embedded[:, :text_rows]]
    if edge > text_rows:
        parts.append(network.self_conditioning(embedded[:, text_rows:edge]))
    if soft:
        parts.append(network.self_conditioning(embedded[:, edge:], torch.cat(soft)[None]))
    return torch.cat(parts, dim=1)


# --- whether they may be joined ----------------------------------------------------------------------------------


def joins(network: DiffusionGemma) -> bool:
    """Whether passes may be joined: on a GPU always; on a CPU where each row comes out the same beside any others.

    That is so with one thread, in fp32, without an adapter (whose products are narrow), packed weights or sorted
    experts (whose numbers of rows hang on the neighbours), in wide layers; and as a trial on this processor shows.
    """
    if network.device.type != "cpu":
        return True
    config = network.config
    widths = config.intermediate_size, config.hidden_size, config.vocab_size
    heads = min(layer.head_dim * layer.num_key_value_heads for layer in config.layers)
    if (
        torch.get_num_threads() > 1
        or network.dtype != torch.float32
        or not config.runs_all_experts
        or config.intermediate_size % VECTORS
        or min(*widths, heads) < NARROWEST
        or any(addition(module) is not None for module in network.modules())
    ):
        return False
    if network not in _tried:
        _tried[network] = not packed_weights(network) and _comes_out_the_same(network)
    return _tried[network]


def joins_texts(network: DiffusionGemma) -> bool:
    """Whether texts may be among them: by kernels, a text is read in a pass of its own."""
    return not kernels.run_on(network.device, network.dtype)


_tried: weakref.WeakKeyDictionary[DiffusionGemma, bool] = weakref.WeakKeyDictionary()


def _comes_out_the_same(network: DiffusionGemma) -> bool:
    """Texts and canvases, joined and alone: whether all bits are the same. Takes as long as about ten passes."""
    config, text_length = network.config, FEWEST_ROWS + 1
    size = min(config.canvas_length, config.max_position_embeddings - text_length)
    if size < FEWEST_ROWS:
        return False
    ids = torch.arange(size + text_length, device=network.device) % config.vocab_size
    text, canvas, empty = ids[:text_length], ids[text_length:], network.new_cache()
    fed = network.denoise(canvas, empty)
    alone = [fed, network.denoise(canvas, empty, fed), network.denoise(text, empty)]
    caches = [network.new_cache() for _ in range(2)]
    canvases = [Rows(canvas, network.new_cache(), logits) for logits in (None, fed)]
    network.prefill(text, caches[0])
    canvases.append(Rows(text, network.new_cache()))
    joined = joint_pass(network, [Rows(text, caches[1])], canvases)
    pairs = [*zip(alone, joined, strict=True), tuple(network.denoise(canvas, cache) for cache in caches)]
    return all(torch.equal(one, other) for one, other in pairs)
