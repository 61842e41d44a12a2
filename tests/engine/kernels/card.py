"""A card that is not there: tensors on the meta device, launches that do nothing, and memory that is only counted.

``Memory`` sees every tensor come and go, and places it as torch's allocator does on CUDA, by its rules for ordinary
segments (c10/cuda/CUDACachingAllocator): sizes in multiples of 512 bytes; up to 1 MiB from segments of 2 MiB, up to
10 MiB from segments of 20 MiB, more from one of its own in multiples of 2 MiB; the smallest free block that is large
enough, of which a rest is split off where it is worth it; free neighbours grow together; what a stream or a graph's
pool has taken serves that one alone; whole free segments are given back by ``empty_cache``.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from triton.runtime.jit import JITFunction

MIB = 1 << 20


def pretend(patch: pytest.MonkeyPatch) -> None:
    """The meta device, which passes for a card, runs kernels in no time and without a result."""
    patch.setattr(JITFunction, "run", lambda *_, **__: None)


@dataclass(eq=False)
class Block:
    segment: Segment
    size: int


@dataclass(eq=False)
class Segment:
    number: int  # in the order in which they were taken
    pool: tuple[str, bool]  # a stream's or a graph's; whether for small blocks
    size: int
    blocks: list[Block] = field(default_factory=list)  # in order of address


class Memory(TorchDispatchMode):
    """Counts what is taken inside."""

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.pool = "stream"  # where the next tensors lie
        self.live = self.peak = self.largest = 0  # bytes of tensors
        self.reserved = self.most_reserved = 0  # bytes of segments
        self._taken = 0  # segments
        self._spare: dict[tuple[str, bool], list[Block]] = {}  # free blocks, by pool
        self._seen = {tensor.untyped_storage()._cdata for tensor in known}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, as where launches are counted."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and tensor.is_meta:
                self.take(tensor)
        return out

    def take(self, tensor: Tensor) -> None:
        """Place a tensor, unless its memory is known; it is freed when nothing refers to it."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen or size == 0:
            return
        self._seen.add(key)
        self.live += size
        self.peak, self.largest = max(self.peak, self.live), max(self.largest, size)
        weakref.finalize(storage, self._free, key, size, self._place(-(-size // 512) * 512))

    def empty_cache(self) -> None:
        for pool, blocks in self._spare.items():
            whole = [block for block in blocks if block.size == block.segment.size]
            self._spare[pool] = [block for block in blocks if block not in whole]
            self.reserved -= sum(block.size for block in whole)

    def _place(self, size: int) -> Block:
        is_small = size <= MIB
        spare = self._spare.setdefault((self.pool, is_small), [])
        fitting = (block for block in spare if block.size >= size)
        block = min(fitting, key=lambda block: (block.size, block.segment.number), default=None)
        if block is None:
            whole = 2 * MIB if is_small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self._taken += 1
            segment = Segment(self._taken, (self.pool, is_small), whole)
            block = Block(segment, whole)
            segment.blocks.append(block)
            self.reserved += whole
            self.most_reserved = max(self.most_reserved, self.reserved)
        else:
            spare.remove(block)
        rest = block.size - size
        if rest >= 512 if is_small else rest > MIB:
            behind = Block(block.segment, rest)
            block.segment.blocks.insert(block.segment.blocks.index(block) + 1, behind)
            spare.append(behind)
            block.size = size
        return block

    def _free(self, key: int, size: int, block: Block) -> None:
        self._seen.discard(key)
        self.live -= size
        blocks, spare = block.segment.blocks, self._spare[block.segment.pool]
        place = blocks.index(block)
        for other in (*blocks[place + 1 : place + 2], *blocks[max(0, place - 1) : place]):
            if other in spare:
                spare.remove(other)
                blocks.remove(other)
                block.size += other.size
        spare.append(block)
