"""Rows of several runs in one pass, in order, and attention of each run to its own keys and values.

All operations between two attentions take each row by itself, so they run once on all rows. Attention is done per run:
its rows are taken apart and joined again. Knows neither caches nor programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from engine.layers.attention import Extend, Span, attend


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


@dataclass(frozen=True)
class JointRows:
    """The rows of a pass: first the text of runs that commit some, then all canvases, both in the order of the runs."""

    texts: tuple[int, ...]  # rows of text of each run; 0: it commits none
    canvases: tuple[int, ...]  # rows of each run's canvas

    @cached_property
    def text_rows(self) -> int:
        """Rows of text of all runs, which come first."""
        return sum(self.texts)

    def apart(self, x: Tensor, dim: int = 0) -> list[Tensor]:
        """Splits all rows by run, each with its text before its canvas; views for runs without text."""
        parts = torch.split(x, [*self.texts, *self.canvases], dim)
        texts, canvases = parts[: len(self.texts)], parts[len(self.texts) :]
        return [
            torch.cat([text, canvas], dim) if rows else canvas
            for rows, text, canvas in zip(self.texts, texts, canvases, strict=True)
        ]

    def together(self, parts: Sequence[Tensor], dim: int = 0) -> Tensor:
        """Joins the rows of each run, its text before its canvas, to all rows."""
        both = [
            torch.split(part, [text, canvas], dim)
            for part, text, canvas in zip(parts, self.texts, self.canvases, strict=True)
        ]
        return torch.cat([*(text for text, _ in both if text.shape[dim]), *(canvas for _, canvas in both)], dim)


@dataclass(frozen=True)
class JointSpan:
    """Used in place of a mask in a pass of several runs: each attends by its own span, to its own buffers."""

    rows: JointRows
    spans: Sequence[Span]
    buffers: Sequence[tuple[Tensor, Tensor]]  # keys and values of each run, (1, kv_heads, capacity, D)

    def attend(self, queries: Tensor, _keys: Tensor, _values: Tensor) -> Tensor:
        """Attends to the buffers with the queries of all rows: (1, heads, T, D) -> (1, T, heads * D)."""
        own = zip(self.spans, self.rows.apart(queries, 2), self.buffers, strict=True)
        return self.rows.together([span.attend(asked, *buffers) for span, asked, buffers in own], 1)
