"""Passes of a few rows through the layers of a dense transformer on a processor, in one call of ``native``.

Products by 4-bit codes round activations to 16 bits by group, all else is fp32: a pass is at least as exact as torch's
in bf16. A row's numbers do not depend on the others in its pass. Torch's operations, forty a layer of a microsecond and
more each, take longer than a small model's products.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_double, c_int64, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor

from engine.config import Activation
from engine.kernels import native
from engine.kernels.cpu_w4a8 import ACTIVATIONS
from engine.kernels.native.matrices import UNIT, Kept, NativeMatrix, Projection, group_of, matrix
from engine.threads import Pace

TILE = 4  # queries that attend at once


class _Rounded(Structure):
    _fields_ = [(name, c_void_p) for name in ("high", "low", "scales", "sums")]


class _Layer(Structure):
    _fields_ = [
        *[(name, NativeMatrix) for name in ("queries", "keys", "values", "out", "gate", "up", "down")],
        *[(name, c_void_p) for name in ("norm", "query_norm", "key_norm", "out_norm", "mlp_norm", "down_norm")],
        *[(name, c_int64) for name in ("heads", "key_heads", "head_size", "reach")],
        ("query_scale", c_double),
    ]


class _Reach(Structure):
    _fields_ = [
        ("cos", c_void_p),
        ("sin", c_void_p),
        *[(name, c_int64) for name in ("rotated", "first", "stored")],
        ("mask", c_void_p),
    ]


class _Buffers(Structure):
    _fields_ = [("keys", c_void_p), ("values", c_void_p), ("capacity", c_int64)]


class _Pass(Structure):
    _fields_ = [
        ("layers", POINTER(_Layer)),
        ("cache", POINTER(_Buffers)),
        ("reaches", POINTER(_Reach)),
        *[(name, c_void_p) for name in ("norm", "row_scales", "x")],
        ("head", POINTER(NativeMatrix)),
        ("logits", c_void_p),
        *[(name, c_int64) for name in ("count", "rows", "hidden", "group", "is_bf16", "activation")],
        *[(name, c_int64) for name in ("threads", "first_logits")],
        ("eps", c_double),
        *[(name, c_void_p) for name in ("input", "wide", "other", "branch")],
        ("whole", _Rounded),
        ("scores", c_void_p),
        ("low", c_void_p),
        ("most_seen", c_int64),
    ]


class Factors(NamedTuple):
    """The factors (H,) or (D,) of a norm."""

    weight: Tensor
    adds_one: bool = False  # the factor is one plus the weight

    def place(self, kept: Kept) -> int | None:
        return kept.copy(self.weight, lambda weight: weight.float() + 1 if self.adds_one else weight.float())


class Norms(NamedTuple):
    """A layer's norms; None: there is no such norm."""

    before: Factors
    queries: Factors | None
    keys: Factors | None
    attended: Factors | None  # of the attention's result
    before_mlp: Factors
    mixed: Factors | None  # of the MLP's result


class LayerWeights(NamedTuple):
    """One layer."""

    projections: tuple[Projection, ...]  # of queries, keys, values, attention's result; gate, up, down
    norms: Norms
    heads: int
    key_heads: int
    head_size: int
    query_scale: float
    reach: int  # which ``Visible`` of a pass is its own


class Visible(NamedTuple):
    """The keys that layers of one kind see in a pass, and how their heads are rotated."""

    cos: Tensor  # fp32 (T, rotated)
    sin: Tensor
    first: int  # of a layer's buffers, the first key that is seen
    stored: int  # keys before the pass
    mask: Tensor | None  # bools (T, stored - first + T), True where allowed; None: all


class DenseLayers:
    """The layers of a network and its head, for ``run``.

    Args:
        layers: from the first.
        norm: the last.
    """

    def __init__(
        self, layers: Sequence[LayerWeights], head: Projection, norm: Factors, eps: float, activation: Activation
    ) -> None:
        self.projections = [*(part for layer in layers for part in layer.projections), head]
        self._kept = Kept()
        self._layers = (_Layer * len(layers))(*map(self._layer, layers))
        self._head, self._norm = matrix(head, self._kept), norm.place(self._kept)
        self._eps, self._activation = eps, activation
        self._group = max(group_of(part) or 0 for part in self.projections)
        self._inputs = max(part.weight.shape[1] for part in self.projections)
        self._outputs = max(part.weight.shape[0] for part in self.projections[:-1]) * 2  # keys and values lie together
        self._pace = Pace()
        self._ranks = 3 * max(part.rank for part in self.projections)

    def _layer(self, layer: LayerWeights) -> _Layer:
        matrices = [matrix(part, self._kept) for part in layer.projections]
        factors = [None if norm is None else norm.place(self._kept) for norm in layer.norms]
        sizes = (layer.heads, layer.key_heads, layer.head_size, layer.reach)
        return _Layer(*matrices, *factors, *sizes, layer.query_scale)

    def run(
        self,
        x: Tensor,
        seen: Sequence[Visible],
        buffers: Sequence[tuple[Tensor, Tensor]],
        first_logits: int,
        most_threads: int,
        row_scales: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Runs all layers, the last norm and the head; new keys and values are written behind the stored ones.

        Args:
            x: embeddings, fp32 (T, H); overwritten.
            seen: for each kind of layer.
            buffers: of each layer, keys and values (1, kv_heads, capacity, D) in bf16 or fp32, with room for T more.
            first_logits: the first row whose logits are computed.
            most_threads: taken unless one is faster.
            row_scales: factors (T,) of the queries, fp32.

        Returns:
            Hidden states (T, H) and logits (T - first_logits, V), fp32.

        Raises:
            SafelightError: memory is short.
        """
        rows, hidden = x.shape
        threads = self._pace.choose(rows, most_threads)
        cache = (_Buffers * len(buffers))(*(_Buffers(_place(k), _place(v), k.shape[2]) for k, v in buffers))
        reaches = (_Reach * len(seen))(
            *(
                _Reach(_place(one.cos), _place(one.sin), one.cos.shape[-1], one.first, one.stored, _place(one.mask))
                for one in seen
            )
        )
        most_seen = -(-max(one.stored - one.first + rows for one in seen) // UNIT) * UNIT
        logits = torch.empty(rows - first_logits, self._head.rows)
        sizes = [rows * self._inputs, *[rows * self._outputs] * 2, rows * hidden, threads * TILE * most_seen]
        sizes += [rows * self._ranks]
        scratch = torch.split(torch.empty(sum(sizes)), sizes)
        whole = _Rounded()
        if self._group:
            codes = torch.empty(2, rows, self._inputs, dtype=torch.int8)
            scales = torch.empty(rows, self._inputs // self._group)
            sums = scales.to(torch.int32)
            whole = _Rounded(*map(_place, (*codes, scales, sums)))
        asked = _Pass(
            self._layers,
            cache,
            reaches,
            self._norm,
            *map(_place, (row_scales, x)),
            ctypes.pointer(self._head),
            _place(logits),
            *(len(buffers), rows, hidden, self._group, buffers[0][0].dtype == torch.bfloat16),
            *(ACTIVATIONS.index(self._activation), threads, first_logits),
            self._eps,
            *map(_place, scratch[:4]),
            whole,
            *map(_place, scratch[4:]),
            most_seen,
        )
        began = time.perf_counter()
        native.check(native.needed().causal_pass(ctypes.byref(asked)), "a pass")
        self._pace.record(rows, threads, time.perf_counter() - began)
        return scratch[0][: rows * hidden].view(rows, hidden), logits


def _place(part: Tensor | None) -> int | None:
    if part is None:
        return None
    return part.data_ptr()
