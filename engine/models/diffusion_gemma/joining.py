"""Texts and canvases of several sequences in one pass; decides which may be joined, and how many cores that takes.

All rows go through the layers together. Only attention is separate for each sequence. The results equal those of each
alone, except for the last digits; ``Joining`` knows when they are equal to the bit.

On a processor each row must be the same with any neighbours, bit for bit. Measured with MKL and AVX-512: a product
rounds by its number of rows if a core has fewer than four of them, or if a row has fewer than a dozen results. GELU
rounds by the position of a number, if a core does not begin at a whole vector. The bounds here avoid both, and a test
pass detects other processors and libraries that differ.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import kernels
from engine.layers.adapted import addition
from engine.layers.joint_rows import Segment, Segments, unextended
from engine.layers.kv_cache import KVCache
from engine.layers.packed_linear import packed_weights
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.threads import Pace, use_threads


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a sequence adds to a pass: tokens (T,) after its cache's text."""

    ids: Tensor
    cache: KVCache
    self_conditioning_logits: Tensor | None = None  # of a canvas, as ``denoise`` takes them
    text: Tensor | None = None  # of a canvas: tokens (T,) before it, which are committed in the same pass

    @property
    def behind(self) -> int:
        """Tokens between the cache's text and these."""
        return 0 if self.text is None else len(self.text)


@torch.inference_mode()
def joint_pass(network: DiffusionGemma, texts: Sequence[Rows], canvases: Sequence[Rows]) -> list[Tensor]:
    """Runs ``prefill`` of the texts, including those before a canvas, and ``denoise`` of the canvases.

    Each has its own cache, except that a canvas shares one with the text before it.

    Returns:
        Logits (C, V) fp32 of each canvas, views of one tensor.

    Raises:
        SafelightError: as those two, before any cache has grown.
    """
    # Those without logits first: their embeddings skip the MLP of self-conditioning.
    order = sorted(range(len(canvases)), key=lambda place: canvases[place].self_conditioning_logits is not None)
    texts = [*texts, *(Rows(rows.text, rows.cache) for rows in canvases if rows.text is not None)]
    ids = [network.checked_text(rows.ids, rows.cache) for rows in texts]
    ids += [network.checked(canvases[place].ids) for place in order]
    each = [*texts, *(canvases[place] for place in order)]
    text_rows = sum(len(part) for part in ids[: len(texts)])

    x = _embedded(network, torch.cat(ids), text_rows, [rows.self_conditioning_logits for rows in each[len(texts) :]])
    for rows in canvases:
        if rows.behind:
            rows.cache.spans(len(rows.ids), rows.behind)
    starts = [rows.cache.length + rows.behind for rows in each]
    places = [torch.arange(start, start + len(part)) for start, part in zip(starts, ids, strict=True)]
    ropes = network.ropes(torch.cat(places).to(network.device), x.dtype)
    masks = [network.causal_masks(start, len(part)) for start, part in zip(starts, ids[: len(texts)], strict=False)]
    for index, (block, layer) in enumerate(zip(network.layers, network.config.layers, strict=True)):
        segments = [
            Segment(
                len(part),
                masks[place][layer.kind] if place < len(texts) else None,
                rows.cache.writer(index, rows.behind),
            )
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
    """Embeds text and then canvases (T,) -> (1, T, H); ``fed``: each canvas's predictions, None for the first ones."""
    embedded = network.embed(ids)[None]
    soft = [network.fed_back(predicted) for predicted in fed if predicted is not None]
    edge = len(ids) - sum(len(rows) for rows in soft)
    parts = [embedded[:, :text_rows]]
    if edge > text_rows:
        parts.append(network.self_conditioning(embedded[:, text_rows:edge]))
    if soft:
        parts.append(network.self_conditioning(embedded[:, edge:], torch.cat(soft)[None]))
    return torch.cat(parts, dim=1)


FEWEST_ROWS, FEWEST_A_CORE = 4, 8  # of a sequence in a joined pass: on one core, and on several
NARROWEST = 16  # results a row of a product
VECTORS = 32  # numbers that a loop takes at once
MAX_CORES = 2  # the most that were measured


class Joining:
    """Joined passes of one network.

    Args:
        threads: of the processor that a pass may take.
    """

    def __init__(self, network: DiffusionGemma, threads: int = 1) -> None:
        self._is_exact: bool | None = None  # result of the test
        self._parts = tuple(network.modules())[1:]  # without the network, as it is a weak key of ``_kept``
        widest = network.config.intermediate_size // VECTORS
        self.cores = min(threads, MAX_CORES) if widest % MAX_CORES == 0 else 1
        self._pace = Pace()

    @staticmethod
    def for_network(network: DiffusionGemma, threads: int = 1) -> Joining:
        """Returns the network's only instance."""
        if network not in _kept:
            _kept[network] = Joining(network, threads)
        return _kept[network]

    @property
    def fewest_rows(self) -> int:
        """Rows that a sequence must have to be joined; shorter ones run alone."""
        return FEWEST_ROWS if self.cores == 1 else FEWEST_A_CORE * self.cores

    def allows(self, network: DiffusionGemma) -> bool:
        """Returns True if rows may be joined.

        On a GPU always. On a CPU in fp32 with one thread a pass, in wide layers. Not with narrow products (adapters),
        sorting by numbers of rows (many experts), or packed weights; and only if the test succeeds.
        """
        if network.device.type != "cpu":
            return True
        config = network.config
        heads = (layer.head_dim * layer.num_key_value_heads for layer in config.layers)
        if (
            torch.get_num_threads() > 1
            or network.dtype != torch.float32
            or not config.runs_all_experts
            or config.intermediate_size % VECTORS
            or min(config.hidden_size, config.vocab_size, *heads) < NARROWEST
            or any(addition(part) is not None for part in self._parts)
        ):
            return False
        if self._is_exact is None:
            self._is_exact = not packed_weights(network) and self._try(network)
        return self._is_exact

    def run(self, network: DiffusionGemma, texts: Sequence[Rows], canvases: Sequence[Rows]) -> list[Tensor]:
        """Runs ``joint_pass`` on the faster number of cores."""
        if network.device.type != "cpu":
            return joint_pass(network, texts, canvases)
        started, count = time.perf_counter(), self._pace.choose(1, self.cores)
        use_threads(count)
        try:
            logits = joint_pass(network, texts, canvases)
        finally:
            use_threads(1)
        rows = sum(len(one.ids) + one.behind for one in (*texts, *canvases))
        self._pace.record(1, count, (time.perf_counter() - started) / rows)
        return logits

    def _try(self, network: DiffusionGemma) -> bool:
        """Returns True if rows are equal joined and alone; tries one core if several fail."""
        if self._comes_out_the_same(network):
            return True
        if self.cores == 1:
            return False
        self.cores = 1
        return self._comes_out_the_same(network)

    def _comes_out_the_same(self, network: DiffusionGemma) -> bool:
        """Returns True if all bits of texts and canvases are the same, joined and alone.

        Takes as long as about ten passes.
        """
        length = self.fewest_rows + 1
        size = min(network.config.canvas_length, network.config.max_position_embeddings - length)
        if size < self.fewest_rows:
            return False
        ids = torch.arange(size + length) % network.config.vocab_size
        text, canvas, empty = ids[:length], ids[length:], network.new_cache()
        fed = network.denoise(canvas, empty)
        alone = [fed, network.denoise(canvas, empty, fed), network.denoise(text, empty)]
        one, other = network.new_cache(), network.new_cache()
        network.prefill(text, one)
        use_threads(self.cores)
        joined = joint_pass(
            network,
            [Rows(text, other)],
            [
                *(Rows(canvas, empty), Rows(canvas, network.new_cache(), fed), Rows(text, network.new_cache())),
                Rows(canvas, network.new_cache(), text=text),
            ],
        )
        use_threads(1)
        behind = network.denoise(canvas, one)
        pairs = [*zip([*alone, behind], joined, strict=True), (behind, network.denoise(canvas, other))]
        return all(torch.equal(*pair) for pair in pairs)


def takes_texts(network: DiffusionGemma) -> bool:
    """Returns True if texts may be among joined rows: kernels read a text in its own pass."""
    return not kernels.run_on(network.device, network.dtype)


_kept: weakref.WeakKeyDictionary[DiffusionGemma, Joining] = weakref.WeakKeyDictionary()
