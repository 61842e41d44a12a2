"""Products with packed weights on a CPU: pieces are decoded one at a time into a reused buffer and multiplied there.

Plain torch, any processor. With bf16 units bf16 is multiplied in bf16, otherwise in fp32. Decoding depends on the
scheme, see ``cpu_decode``. int4 codes in blocks go through torch's own kernel if there are few tokens. Measured on a
core with AVX-512 and AMX, 4096 inputs, it takes 13 billion weights a second for a token, 8 for four and 2 for 16;
decoding them 0.5, whatever the number of tokens. int8 rows go through its kernel for a few tokens, and through one in C
for more where the processor has matrix units: ``cpu_int8``.

Work is divided among torch's threads in large parts: they synchronise once, not at every operation. If a busy process
takes one thread's core for a while, this is tens of times as fast. Each thread has its own malloc arena, which retains
freed memory: ``give_back`` returns it to the system.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import GELU, Activation
from engine.kernels import cpu_int4, cpu_int8, cpu_w4a8
from engine.kernels.cpu_decode import decoder
from engine.kernels.native import matrices
from engine.kernels.reference import activate
from engine.quant import UINT4, Packed

AT_ONCE = 1 << 22  # weights of a piece in the buffer: 8 MB in bf16, one expert matrix of the 26B
LEAST_WORK = 1 << 28  # multiplications from which rows are divided among threads
LEAST_PAIRS = 512  # token-expert pairs from which experts are divided among threads
FEW_QUERIES = 8  # rows up to which attention is written out in 16 bits
KEYS_AT_ONCE = 1 << 20  # numbers of a piece of the keys in fp32: 4 MB, which stay in a processor's cache


@functools.cache
def has_bf16_units() -> bool:
    """Returns True if the processor multiplies bf16 faster than fp32, by its instruction sets."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def number(dtype: torch.dtype) -> torch.dtype:
    """Returns the number type in which activations of a type are multiplied."""
    return torch.bfloat16 if dtype == torch.bfloat16 and has_bf16_units() else torch.float32


def linear(x: Tensor, weight: Packed) -> Tensor:
    """Multiplies x (..., in) by a packed (out, in) -> (..., out).

    uint4 in blocks multiplies in bf16 also where activations are fp32: a product rounds less than a sum of layers.
    """
    tokens, rows = x[..., 0].numel(), weight.shape[0]
    flat = x.reshape(tokens, -1)
    if weight.block and weight.scheme == UINT4:
        flat = flat.bfloat16()
    kind = number(flat.dtype)
    by_int4 = weight.block > 0 and flat.dtype == torch.bfloat16 and tokens <= cpu_int4.FEW
    by_int8 = cpu_int8.takes(flat, weight)
    many = tokens * rows * weight.shape[1] >= LEAST_WORK
    if not by_int8 and cpu_int8.takes_many(flat, weight):
        out = cpu_int8.multiply_many(flat.contiguous(), weight, torch.get_num_threads() if many else 1)
        return out.view(*x.shape[:-1], -1)
    if not by_int4 and matrices.decodes(weight):
        return _by_pieces(flat.to(kind), weight, x.new_empty(tokens, rows)).view(*x.shape[:-1], -1)
    arranged = flat.contiguous() if by_int4 or by_int8 else decoder(weight).arrange(flat.to(kind))
    out = x.new_empty(tokens, rows)

    def take(part: range) -> None:
        own = weight.rows(part.start, part.stop) if len(part) < rows else weight
        into = out[:, part.start : part.stop]
        if by_int4:
            into.copy_(cpu_int4.multiply(arranged, own, cpu_int4.pairs(own)))
        elif by_int8:
            into.copy_(cpu_int8.multiply(arranged, own))
        else:
            _multiply(arranged, own, _buffer(kind, own), into)

    share(take, even(rows, max(1, weight.block)) if many else [range(rows)])
    return out.view(*x.shape[:-1], -1)


def _by_pieces(x: Tensor, weight: Packed, out: Tensor) -> Tensor:
    """Multiplies x (N, in) by codes (out, in) in blocks into ``out`` (N, out): decoded in C, multiplied by torch.

    All threads share each piece: those that ``share`` starts would each fill new memory with their own.
    """
    rows, inputs = weight.shape
    count = min(rows, max(1, AT_ONCE // inputs // weight.block) * weight.block)
    room = torch.empty(inputs * count, dtype=x.dtype)
    for start in range(0, rows, count):
        part = weight.part(slice(start, start + count))
        decoded = room[: inputs * part.shape[0]].view(inputs, -1)
        matrices.decode(part, decoded, torch.get_num_threads())
        out[:, start : start + count] = x @ decoded
    return out


def experts(
    x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed, activation: Activation = GELU
) -> Tensor:
    """Runs gated experts, each on the tokens that chose it; arguments as ``reference.experts``."""
    if x.dtype == torch.bfloat16 and cpu_w4a8.joins(gate_up, down):
        many = chosen.numel() * gate_up.shape[1] * gate_up.shape[2] >= LEAST_WORK
        threads = torch.get_num_threads() if many else 1
        return cpu_w4a8.experts(x, weights, chosen, gate_up, down, activation, threads)
    order = chosen.flatten().argsort(stable=True)
    token, gates = order // chosen.shape[1], weights.flatten()[order, None]
    counts = chosen.flatten().bincount().tolist()

    def take(part: range) -> Tensor:
        widen, narrow = _Experts(x.dtype, gate_up), _Experts(x.dtype, down)
        arranged = widen.arranged(x)
        out = torch.zeros(x.shape, dtype=torch.float32)
        first = sum(counts[: part.start])
        for expert in part:
            some = slice(first, first + counts[expert])
            first = some.stop
            if counts[expert]:
                gate, up = widen.multiply(arranged[token[some]], expert).chunk(2, dim=-1)
                inner = narrow.arranged(activate(gate, activation) * up)
                out.index_add_(0, token[some], narrow.multiply(inner, expert) * gates[some])
        return out

    total = torch.stack(share(take, _bounds(counts, torch.get_num_threads()))).sum(dim=0).to(x.dtype)
    if sum(counts) >= LEAST_PAIRS:
        give_back()  # otherwise malloc retains half a gigabyte after a step of the 26B in nf4
    return total


def _bounds(counts: list[int], parts: int) -> list[range]:
    """Returns ranges of experts with about equal numbers of tokens; one range if there is little to do."""
    if sum(counts) < LEAST_PAIRS:
        return [range(len(counts))]
    each, start, held = sum(counts) / parts, 0, 0
    ranges: list[range] = []
    for expert, count in enumerate(counts):
        held += count
        if held >= each * (len(ranges) + 1) and len(ranges) < parts - 1:
            ranges.append(range(start, expert + 1))
            start = expert + 1
    return [*ranges, range(start, len(counts))]


class _Experts:
    """A stack of packed matrices (E, out, in) and the buffer in which they are decoded one after another."""

    def __init__(self, dtype: torch.dtype, stack: Packed) -> None:
        self.stack, self.in_blocks = stack, stack.block > 0 and dtype == torch.bfloat16
        self.kind = dtype if self.in_blocks else number(dtype)
        self.room = cpu_int4.spread(stack[0].scales) if self.in_blocks else _buffer(self.kind, stack[0])

    def arranged(self, x: Tensor) -> Tensor:
        """Returns x (N, in) in the form that ``multiply`` takes."""
        return x.to(self.kind) if self.in_blocks else decoder(self.stack).arrange(x.to(self.kind))

    def multiply(self, x: Tensor, expert: int) -> Tensor:
        """Multiplies arranged x (N, in) by one of the matrices -> (N, out)."""
        own = self.stack[expert]
        if self.in_blocks:
            self.room[..., 0] = own.scales
            return cpu_int4.multiply(x, own, self.room)
        out = x.new_empty(x.shape[0], self.stack.shape[1])
        _multiply(x, own, self.room, out)
        return out


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """Returns the mean row of an int8 (V, H) under probabilities (..., V) -> (..., H)."""
    kind = number(probabilities.dtype)
    buffer = _buffer(kind, table)
    total = torch.zeros(*probabilities.shape[:-1], table.shape[1])
    for part, rows in decoder(table).pieces(table, buffer):
        total += (probabilities[..., part] * table.scales[0, part]).to(kind) @ rows
    return total.to(probabilities.dtype)


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Returns softmax(q k^T) v over (B, heads, T, D), unscaled; fewer heads of keys and values are not copied.

    Few queries of 16 bits are multiplied in fp32, written out: torch's kernel reorders all keys and values first, and
    for one query takes ten times as long. Both round only the result.

    Args:
        mask: True where allowed, broadcastable to (B, heads, T, S); None allows all.
    """
    grouped = queries.shape[1] > keys.shape[1]
    if queries.shape[2] > FEW_QUERIES or queries.dtype != torch.bfloat16 or (mask is not None and mask.dim() > 2):
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0, enable_gqa=grouped)
    rows = queries.view(queries.shape[0], keys.shape[1], -1, *queries.shape[2:])  # (B, key heads, heads of each, T, D)
    out = torch.empty_like(rows)
    count = max(1, KEYS_AT_ONCE // max(1, keys.shape[2] * keys.shape[3]))  # key heads of a piece
    for start in range(0, keys.shape[1], count):
        some = slice(start, start + count)
        scores = rows[:, some].float().flatten(2, 3) @ keys[:, some].float().transpose(-1, -2)
        if mask is not None:
            scores.view(*rows[:, some].shape[:-1], -1).masked_fill_(~mask, -torch.inf)
        out[:, some] = (scores.softmax(dim=-1) @ values[:, some].float()).view_as(out[:, some])
    return out.flatten(1, 2)


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, span: Tensor, text_rows: int = 0, window: int | None = None
) -> Tensor:
    """Attends as ``reference_step.attention``, without copying keys, or a mask for the canvas."""
    first, end = span.tolist()
    begin = end - queries.shape[1]  # position of the first query

    def look(rows: Tensor, start: int, stop: int, mask: Tensor | None) -> Tensor:
        return attend(rows[None], keys[None, :, start:stop], values[None, :, start:stop], mask)[0]

    out = look(queries[:, text_rows:], first, end, None)
    if text_rows:
        place = torch.arange(begin, begin + text_rows)[:, None]
        start = first if window is None else max(0, begin - window + 1)
        key = torch.arange(start, begin + text_rows)[None, :]
        mask = key <= place if window is None else (key <= place) & (key > place - window)
        out = torch.cat([look(queries[:, :text_rows], start, begin + text_rows, mask), out], dim=1)
    return out.transpose(0, 1).reshape(queries.shape[1], -1)


def _buffer(kind: torch.dtype, weight: Packed) -> Tensor:
    """Makes a buffer for the pieces of a packed (out, in): at least one row, or block of rows."""
    out, inputs = weight.shape
    return torch.empty(inputs * min(out, max(1, weight.block, AT_ONCE // inputs)), dtype=kind)


def _multiply(x: Tensor, weight: Packed, buffer: Tensor, out: Tensor) -> None:
    """Multiplies arranged x (N, in) by a packed (out, in), into ``out`` (N, out) of any type."""
    decode = decoder(weight)
    scales = decode.product_scales(weight)
    for part, rows in decode.pieces(weight, buffer):
        product = F.linear(x, rows)
        out[:, part] = product if scales is None else product.mul_(scales[part])


Result = TypeVar("Result")


def share(work: Callable[[range], Result], parts: Sequence[range]) -> list[Result]:
    """Returns the results of ``work`` for each part, in order, without gradients. Each part runs in one thread."""
    inference = torch.is_inference_mode_enabled()

    def take(part: range) -> Result:
        with torch.no_grad(), torch.inference_mode() if inference else nullcontext():
            return work(part)

    if len(parts) == 1:
        return [take(parts[0])]
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(len(parts), "safelight", initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(take, parts))
    finally:
        torch.set_num_threads(threads)  # also for threads created later


def even(count: int, unit: int = 1) -> list[range]:
    """Divides 0 to ``count`` into one range per thread, of about equal size, starting at multiples of ``unit``."""
    units = -(-count // unit)
    threads = min(torch.get_num_threads(), units)
    edges = [min(count, units * index // threads * unit) for index in range(threads + 1)]
    return [range(start, end) for start, end in pairwise(edges)]


@functools.cache
def _trimming() -> Callable[[int], object] | None:
    """Returns glibc's ``malloc_trim``; None with another malloc."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def give_back() -> None:
    """Returns freed memory that malloc retains to the system; takes 4 ms with a model of gigabytes loaded."""
    trim = _trimming()
    if trim is not None:
        trim(0)
