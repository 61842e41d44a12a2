"""The layout of released checkpoints, and the matrices that many store one by one while our weights are stacks of them.

In quantised checkpoints each expert is stored separately, and its gate and up, too. Codes have the low nibble first, in
numbers of any width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine.quant import join_nibbles
from engine.weights.layout import Expected, Layout, Names, Place, State
from engine.weights.safetensors import FLOATING


@dataclass(frozen=True)
class Matrix:
    """A matrix (out, in), which fills a weight or rows of one."""

    name: str  # in the checkpoint, without ".weight"
    shape: tuple[int, int]
    path: str  # of the weight, in the network
    at: tuple[int, ...]  # its expert, or nothing
    index: int = 0  # its position among stacked matrices

    @property
    def place(self) -> Place:
        """The part of the weight that it fills; () is all of it."""
        return self._rows if self.at else ()

    @property
    def _rows(self) -> Place:
        return (*self.at, slice(self.index * self.shape[0], (self.index + 1) * self.shape[0]))

    def put(self, state: State, part: str, tensor: Tensor) -> None:
        """Stores codes in tiles, stored scales, or the matrix's scale ()."""
        state.put_into(self.path, part, self._rows, tensor)


def matrices(path: str, name: str, shape: tuple[int, ...]) -> Iterator[Matrix]:
    """Yields the matrices of a weight (..., out, in), whose released name is ``name``."""
    if len(shape) == 2:
        out, inputs = shape
        yield Matrix(name.removesuffix(".weight"), (out, inputs), path, ())
        return
    base, _, projection = name.rpartition(".")
    halves = ("gate_proj", "up_proj") if projection == "gate_up_proj" else ("down_proj",)
    experts, out, inputs = shape
    rows = out // len(halves)
    for expert in range(experts):
        for index, half in enumerate(halves):
            yield Matrix(f"{base}.{expert}.{half}", (rows, inputs), path, (expert,), index)


def released(state: State, names: Names) -> Layout:
    """Returns the layout of released checkpoints: plain tensors."""
    layout: Layout = {}
    for path, shape in state.shapes.items():
        name = names.released(path)
        if names.has_single_experts and len(shape) == 3:
            for matrix in matrices(path, name, shape):
                put = partial(state.put, path, place=matrix.place)
                layout[f"{matrix.name}.weight"] = Expected(matrix.shape, FLOATING, path, put)
        else:
            layout[name] = Expected(shape, FLOATING, path, partial(state.put, path))
    return layout


def put_values(state: State, matrix: Matrix, values: Tensor) -> None:
    """Stores or packs a matrix that was read in fp32; if the state keeps a checkpoint's types, it becomes bf16."""
    state.put(matrix.path, values if state.dtype is not None else values.bfloat16(), matrix.place)


def to_tiles(codes: Tensor) -> Tensor:
    """Converts 4-bit codes of rows, in numbers of any width, low nibble first, to our bytes (out, in / 2)."""
    pairs = codes.contiguous().view(torch.uint8)  # even input low, odd input high
    return join_nibbles(torch.stack([pairs & 15, pairs >> 4], dim=-1).flatten(-2))


def repeated(scales: Tensor, groups: int) -> Tensor:
    """Repeats scales (found, out) of wider groups for the narrower groups that each covers: (groups, out)."""
    return scales.repeat_interleave(groups // scales.shape[0], dim=0)
