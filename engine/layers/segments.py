"""Rows of several sequences in one pass, each with its own sequence's keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.layers.attention import Extend, attend


@dataclass(frozen=True)
class Segment:
    """The rows of one sequence: their mask, and access to the sequence's keys."""

    rows: int
    mask: Tensor | None  # as ``attend`` takes it
    extend: Extend

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attends with queries, after adding their new keys and values -> (1, heads, T, D)."""
        keys, values = self.extend(keys, values)
        return attend(queries, keys, values, self.mask)


@dataclass(frozen=True)
class Segments:
    """A ``Reach``: consecutive rows of several sequences."""

    each: tuple[Segment, ...]

    @property
    def rows(self) -> list[int]:
        return [segment.rows for segment in self.each]

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attends with queries (1, heads, T, D), given new keys and values (1, kv_heads, T, D) -> (1, T, heads * D)."""
        parts = [torch.split(part, self.rows, dim=2) for part in (queries, keys, values)]
        mixed = [own.attend(*part) for own, *part in zip(self.each, *parts, strict=True)]
        return torch.cat(mixed, dim=2).transpose(1, 2).flatten(2)


def unextended(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The ``Extend`` of a pass without a cache, or with ``Segments``, which have one each."""
    return keys, values
