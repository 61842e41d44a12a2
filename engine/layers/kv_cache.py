"""Keys and values of the committed text of one sequence. Does not know how they are computed.

Full-attention layers keep every token. Sliding layers need the last ``sliding_window - 1``; they keep ``SLACK`` more,
so that the text can be truncated a little (an edited turn) without prefilling it all again. Buffers have room after the
committed text: a denoising canvas writes its keys and values there. It attends to one contiguous view, without copying
the prefix and without being committed.

Text is appended a piece at a time, and the first row of a piece attends to a full window before it: a sliding layer has
room for both. With kernels a piece is longer, since its keys are not copied and its masks not written. For 1024 tokens
the 26B's sliding layers need 52 MB beyond the canvas and the slack, for 2048 they would need 262 MB. 1024 tokens are 64
of each expert on average, which fills a tile of its kernel. 2048 would save a sixth of the weights' decoding, and cost
another 110 MB of activations. An image is one whole piece: models that see have room for the largest.

The cache also stores the ids of its tokens, so that a prompt that begins with them is not prefilled again; an image's
tokens are identified by its key. Text that is read in blocks, each of which attends to all of itself, is kept in whole
blocks only. It serves only prompts that are read in the same blocks.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.layers.attention import Extend
from engine.layers.images import ImageRows, keyed
from engine.layers.masks import CAUSAL, Blocks

SLACK = 512  # tokens a sliding layer keeps beyond its window
GROWTH = 512  # buffer sizes are multiples of this many tokens
PIECE = 512  # tokens of a causal pass: more would need much memory for scores, and delay Stop
KERNEL_PIECE = 1024  # with kernels
UNKNOWN = -1  # a committed token of unknown id; equal to no token


def capacity(config: ModelConfig, layer: LayerConfig, tokens: int, piece: int = PIECE) -> int:
    """Returns the capacity of a layer's buffers for a text of ``tokens``, canvas included, prefilled in pieces."""
    rounded = -(-tokens // GROWTH) * GROWTH
    if not layer.is_sliding:
        return rounded
    beyond = max(SLACK + config.canvas_length, piece, config.largest_image)
    return min(rounded, config.sliding_window - 1 + beyond)


def cache_bytes(config: ModelConfig, tokens: int, itemsize: int, piece: int = PIECE) -> int:
    """Returns the bytes of a cache with room for ``tokens`` (a canvas included), of numbers of ``itemsize`` bytes."""
    per_token = (2 * layer.num_key_value_heads * layer.head_dim * itemsize for layer in config.layers)
    rooms = (capacity(config, layer, tokens, piece) for layer in config.layers)
    return sum(size * room for size, room in zip(per_token, rooms, strict=True))


class _LayerCache:
    """Buffers (1, heads, capacity, D) holding the tokens ``base`` .. ``base + stored`` of the sequence."""

    def __init__(
        self, config: ModelConfig, layer: LayerConfig, device: torch.device, dtype: torch.dtype, piece: int
    ) -> None:
        self.config, self.layer, self.piece = config, layer, piece
        self.visible = config.sliding_window - 1 if layer.is_sliding else None  # committed tokens a canvas sees
        self.base = 0
        self.stored = 0
        shape = (1, layer.num_key_value_heads, 0, layer.head_dim)
        self.keys = torch.empty(shape, device=device, dtype=dtype)
        self.values = torch.empty(shape, device=device, dtype=dtype)

    def first_seen(self, end: int) -> int:
        """Returns the buffer index of the first token that a canvas after index ``end`` attends to."""
        return 0 if self.visible is None else max(0, end - self.visible)

    def reserve(self, tokens: int) -> bool:
        """Makes room for a text of ``tokens`` now; up to that length the buffers are not reallocated.

        Returns:
            True if smaller buffers were freed.
        """
        before, size = self.keys.shape[2], capacity(self.config, self.layer, tokens, self.piece)
        if size > before:
            self._move(0, size)
        return 0 < before < size

    def make_room(self, extra: int) -> None:
        """Makes room for ``extra`` tokens after the stored ones, dropping tokens that left the window."""
        need = self.stored + extra
        if need <= self.keys.shape[2]:
            return
        size = max(self.keys.shape[2], capacity(self.config, self.layer, need, self.piece))
        drop = 0 if self.visible is None else max(0, min(need - size, self.stored - self.visible))
        self._move(drop, max(need - drop, size))

    def _move(self, drop: int, size: int) -> None:
        """Drops the first ``drop`` tokens, in buffers of ``size`` tokens; nothing changes if memory runs out."""
        stored = self.stored - drop
        kept = [buffer[:, :, drop : self.stored] for buffer in (self.keys, self.values)]
        if size == self.keys.shape[2]:
            buffers = [self.keys, self.values]
            kept = [part.clone() for part in kept]  # source and destination overlap
        else:
            buffers = [part.new_empty((1, part.shape[1], size, part.shape[3])) for part in kept]
        for buffer, part in zip(buffers, kept, strict=True):
            buffer[:, :, :stored] = part
        self.keys, self.values = buffers
        self.base, self.stored = self.base + drop, stored

    def extend(self, keys: Tensor, values: Tensor, behind: int = 0) -> tuple[Tensor, Tensor]:
        """Writes new tokens after the stored ones; returns the visible prefix with them, (1, heads, S, D).

        Args:
            behind: tokens after the stored ones that come before these, written in the same pass; there must be room.
        """
        self.make_room(behind + keys.shape[2])
        start = self.stored + behind
        end = start + keys.shape[2]
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        first = self.first_seen(start)
        return self.keys[:, :, first:end], self.values[:, :, first:end]


class KVCache:
    """Cache of one sequence; created by ``model.new_cache()``, for that model only."""

    def __init__(self, config: ModelConfig, device: torch.device, dtype: torch.dtype, piece: int = PIECE) -> None:
        self.length = 0  # committed tokens
        self.piece = piece  # maximum tokens of a causal pass, unless it reads an image
        self.blocks = CAUSAL  # in which the text is read
        self.images: tuple[ImageRows, ...] = ()  # of the text, in order, including those not read yet
        self._config = config
        self._ids: list[int | str] = []  # of the committed tokens
        self._owner: weakref.ref[object] | None = None
        self._layers = [_LayerCache(config, layer, device, dtype, piece) for layer in config.layers]
        self._device = device

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self._layers)

    @property
    def device_bytes(self) -> int:
        """Bytes of a card's memory that are occupied at once; a processor's is allocated as it is written."""
        return self.nbytes if self._device.type == "cuda" else 0

    def reserve(self, tokens: int) -> None:
        """Makes room for a text of ``tokens``, canvas included, so that no buffer moves while it is written."""
        for layer in self._layers:
            if layer.reserve(tokens):  # on a GPU the freed blocks, too small for reuse, would stay cached
                torch.cuda.empty_cache()

    def writer(self, index: int, behind: int = 0) -> Extend:
        """Returns ``extend`` for a layer; its tokens are committed by ``advance``, and otherwise overwritten.

        Args:
            behind: tokens that another writer adds in the same pass, before these; ``spans`` has made room.
        """
        extend = self._layers[index].extend
        return functools.partial(extend, behind=behind) if behind else extend

    def buffers(self, index: int) -> tuple[Tensor, Tensor]:
        """Returns a layer's full keys and values, (1, heads, capacity, D); they do not move within ``reserve``."""
        layer = self._layers[index]
        return layer.keys, layer.values

    def spans(self, count: int, text: int = 0) -> dict[str, tuple[int, int]]:
        """Makes room for a canvas of ``count`` tokens, and returns the buffer ranges that it attends to.

        Args:
            text: tokens between the committed ones and the canvas, processed in the same pass as text.

        Returns:
            Kind of layer -> the first index that the canvas attends to and the index after its last token.
        """
        spans: dict[str, tuple[int, int]] = {}
        for layer in self._layers:
            layer.make_room(text + count)
            end = layer.stored + text
            spans[layer.layer.kind] = (layer.first_seen(end), end + count)
        return spans

    def advance(self, count: int) -> None:
        """Commits the ``count`` tokens that every layer has just written."""
        self.length += count
        self._ids += [UNKNOWN] * count
        for layer in self._layers:
            layer.stored += count

    def truncate(self, length: int) -> None:
        """Drops the text from token ``length`` on, and with it the block that contains this token.

        Raises:
            SafelightError: a sliding layer no longer holds the window before that token; start a new cache.
        """
        if not 0 <= length <= self.length:
            raise SafelightError(f"cannot cut a cache of {self.length} tokens to {length}")
        length = max(0, length - self.blocks.before(length))
        if not self._can_cut(length):
            raise SafelightError(
                f"the cache no longer holds the {self._config.sliding_window - 1} tokens before token {length}"
            )
        for layer in self._layers:
            layer.base = layer.base if length else 0
            layer.stored = length - layer.base
        self.length = length
        del self._ids[length:]

    def _can_cut(self, length: int) -> bool:
        """Returns True if every sliding layer holds what a canvas after token ``length`` would attend to."""
        return length == 0 or all(
            layer.visible is None or layer.base <= max(0, length - layer.visible) for layer in self._layers
        )

    @property
    def image(self) -> ImageRows | None:
        """The image that begins directly after the committed text, if any."""
        return next((image for image in self.images if image.start == self.length), None)

    def pieces(self, count: int, most: int = 0) -> list[int]:
        """Returns the sizes in which the next tokens are read: ``most`` or ``piece``, but images and blocks whole."""
        lengths, at, end = list[int](), self.length, self.length + count
        starts = {image.start for image in self.images}
        block = self.blocks.size
        whole = max(block, (most or self.piece) // block * block)
        edges = {end} | starts | {image.end for image in self.images}
        for edge in sorted(edge for edge in edges if at < edge <= end):
            size, begun = (edge - at, 0) if at in starts else (whole, self.blocks.before(at))
            lengths += [min(start + size, edge) - max(start, at) for start in range(at - begun, edge, size)]
            at = edge
        return lengths

    def bind(self, model: object, config: ModelConfig) -> None:
        """Binds the cache to the model that fills it.

        Raises:
            SafelightError: it was created for, or filled by, another model.
        """
        if self._owner is None and config == self._config:
            self._owner = weakref.ref(model)
        elif self._owner is None or self._owner() is not model:
            raise SafelightError("the cache belongs to another model; make one with new_cache() of the model that runs")

    def record_ids(self, ids: Sequence[int]) -> None:
        """Sets the ids of the last ``len(ids)`` committed tokens; tokens without ids are never reused."""
        start = len(self._ids) - len(ids)
        self._ids[start:] = keyed(ids, self.images, start)

    def shared(self, ids: Sequence[int | str]) -> int:
        """Returns the length of the text's common prefix with ``ids``, which are ``keyed`` if there are images."""
        pairs = zip(self._ids, ids, strict=False)
        return next((place for place, (held, new) in enumerate(pairs) if held != new), min(self.length, len(ids)))

    def keep_prefix(self, ids: Sequence[int], blocks: Blocks = CAUSAL) -> int:
        """Truncates the text to its common prefix with ``ids``, between whose tokens ``images`` are.

        Args:
            blocks: in which the text after the prefix is read.

        Returns:
            The length of the prefix: 0 if a sliding layer no longer holds the window before the cut, or the text was
                read in other blocks.
        """
        shared = self.shared(keyed(ids, self.images)) if blocks == self.blocks else 0
        self.blocks = blocks
        shared = next((image.start for image in self.images if image.start < shared < image.end), shared)
        self.truncate(shared if self._can_cut(shared) else 0)
        return self.length
