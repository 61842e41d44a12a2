"""Reads a decision: the probabilities of labels after one denoising step over a canvas, noise or masks in its slots.

No text is written: the cache holds only the prompt afterwards, so that the next question about the same state can reuse
it. Only the slots are predicted; all else on the canvas is pinned.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.decoding import sampling
from engine.decoding.block_diffusion import cut_at_eos, room_for_blocks
from engine.decoding.generate import require_run_able
from engine.decoding.performing import perform_all
from engine.decoding.prefill import commit, prefill, reuse_prefix
from engine.decoding.protocols import BlockDenoiser, Decode, Decoding, Denoise, Passes
from engine.decoding.run import Run
from engine.decoding.sampler import non_finite, to_host
from engine.decoding.written_blocks import required_mask
from engine.errors import SafelightError
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    SlotsRead,
    StepFinished,
)
from engine.layers.kv_cache import KVCache
from engine.layers.masks import Blocks
from engine.memory.experimental import in_fp64
from engine.models.causal.config import CausalConfig
from engine.tasks.decisions.answers import DOUBT, LabelRead
from engine.tasks.decisions.layout import NOISE, Layout
from engine.types import Cancel, Tokens

ROWS = 16  # slots whose distributions are in memory as float64 at once
LEAST = -1000.0  # the lowest log-probability that is reported, in nats


def read(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    layout: Layout,
    config: GenerationConfig | None = None,
    repeats: int = 0,
    seed: int = 0,
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Iterator[Event]:
    """Reads a decision from a canvas behind a prompt.

    Args:
        model, prompt_ids, cancel, cache: as for ``generate``; the cache holds only the prompt afterwards.
        layout: the canvas (C,) and its slots; C may differ from the model's own, and must not be above it.
        config: only its ``top_k`` and the tokens that end and fill a text are used.
        repeats: reads with fresh noise that follow the first one where a slot is in doubt; masks are read once.
        seed: the same seed gives the same noise behind the same prompt, on any machine.

    Yields:
        ``PrefillFinished``; for each read ``CanvasStarted``, ``StepFinished``, ``SlotsRead`` and ``CanvasCommitted``;
        ``GenerationFinished``, with the likeliest labels as they stand on the canvas.

    Raises:
        SafelightError: as ``generate``; a canvas with tokens that are not in the vocabulary.
    """
    run = Run.from_ids(model, prompt_ids, config or GenerationConfig(), seed, cancel, cache)
    yield from perform_all(model, reading(run, layout, repeats))


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def reading(run: Run, layout: Layout, repeats: int = 0) -> Decoding[None]:
    """Reads a decision from a canvas behind the prompt; the arguments are those of ``read``."""
    decoder = require_run_able(run, "a decision", "decides")
    room_for_blocks(run, len(layout.canvas))
    sheet = _Sheet.from_layout(layout, run.model.config.vocab_size)
    is_noise = decoder == BLOCK_DIFFUSION
    reads = yield from _noisy_reads(run, sheet, repeats) if is_noise else _masked_read(run, sheet, decoder)
    tokens, end = np.empty(0, dtype=np.int32), 0
    if reads.slots:
        tokens, end = cut_at_eos(sheet.filled(sheet.answer(reads.slots)), run.config)
    count = len(reads.slots)
    yield GenerationFinished("cancelled" if reads.is_cancelled else "eos", tokens[:end], count, count, reads.seconds)


@dataclass
class _Reads:
    """The reads of a decision so far."""

    slots: list[tuple[NDArray[np.float32], ...]] = field(default_factory=list)
    seconds: float = 0.0
    is_cancelled: bool = False

    def add(self, run: Run, sheet: _Sheet, logits: Tensor, seconds: float) -> Iterator[Event]:
        """Adds a read by the logits (S, V) at its slots, and yields its events."""
        block, clock = len(self.slots), time.perf_counter()
        if not bool(torch.isfinite(logits).all()):
            raise non_finite(block, 0)
        rows = _Rows.from_logits(logits, sheet.ids.to(logits.device), run.config.top_k)
        argmax = sheet.filled(rows.argmax)
        seconds += time.perf_counter() - clock
        self.seconds += seconds
        entropy, everywhere = sheet.spread(rows.entropy), np.ones(len(argmax), dtype=np.bool_)
        top = sheet.likeliest(argmax, rows)
        yield StepFinished(block, 0, 1.0, argmax, argmax, entropy, everywhere, argmax, seconds, *top)
        self.slots.append(sheet.of_labels(rows.labels))
        yield SlotsRead(block, self.slots[-1], sheet.are_labels(rows.argmax))
        yield CanvasCommitted(block, *cut_at_eos(argmax, run.config), 1, "converged")


def _masked_read(run: Run, sheet: _Sheet, decoder: str) -> Decoding[_Reads]:
    """Reads the slots from masks, once: nothing is drawn, so that a repeated read would be the same."""
    reads, clock = _Reads(is_cancelled=run.is_cancelled), time.perf_counter()
    if reads.is_cancelled:
        return reads
    mask = required_mask(run)
    canvas = sheet.filled(np.full(len(sheet.positions), mask, dtype=np.int32))
    logits = yield from slot_logits(
        run, torch.from_numpy(canvas).long(), sheet.positions.tolist(), in_blocks=decoder == "block_causal"
    )
    seconds = time.perf_counter() - clock
    share = seconds * len(run.prompt) / (len(run.prompt) + len(canvas))
    yield PrefillFinished(len(run.prompt), 0, share)
    yield CanvasStarted(0, canvas, sheet.pinned, mask)
    yield from reads.add(run, sheet, logits, seconds - share)
    return reads


def _noisy_reads(run: Run, sheet: _Sheet, repeats: int) -> Decoding[_Reads]:
    """Reads the slots from noise; where one is in doubt, so many more times."""
    model, prompt, cache, layout, reads = run.model, run.prompt, run.cache, sheet.layout, _Reads()
    started = time.perf_counter()
    kept = reuse_prefix(cache, [prompt])
    cache.reserve(len(prompt) + len(layout.canvas))
    behind_images = max((image.end for image in cache.images), default=0)
    last = prompt[max(kept, behind_images, len(prompt) - cache.piece) :]  # read in the first step's pass
    is_read = yield from prefill([prompt[: len(prompt) - len(last)]], cache, run.cancel)
    prefilled = time.perf_counter() - started
    while is_read and len(reads.slots) < 1 + (repeats if reads.slots and _is_in_doubt(reads.slots[0]) else 0):
        if run.is_cancelled:
            is_read = False
            break
        block, clock = len(reads.slots), time.perf_counter()
        canvas = sheet.with_noise(_generator(run.seed, block, prompt), model.config.vocab_size)
        wanted = Denoise(canvas.to(model.device), cache, None, last if len(last) else None)
        yield wanted
        logits = wanted.take()[sheet.positions.to(model.device)]
        if block == 0:
            cache.record_ids(last.tolist())
            share = (time.perf_counter() - clock) * len(last) / (len(last) + len(canvas))
            clock += share
            yield PrefillFinished(len(prompt), kept, prefilled + share)
            last = last[:0]
        seconds = time.perf_counter() - clock
        yield CanvasStarted(block, to_host(canvas), sheet.pinned)
        yield from reads.add(run, sheet, logits, seconds)
    reads.is_cancelled = not is_read
    return reads


def _generator(seed: int, number: int, prompt: Tensor) -> torch.Generator:
    """Returns the generator of a read's noise, on the CPU, so that the noise is the same on any device."""
    digest = hashlib.sha256(json.dumps([seed, number, prompt.tolist()]).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))


def _is_in_doubt(logprobs: Sequence[NDArray[np.float32]]) -> bool:
    return any(LabelRead(tuple(own.tolist())).entropy > DOUBT for own in logprobs)


@dataclass(frozen=True)
class _Rows:
    """The results of a read at its S slots, on the host. L labels of I tokens each, at most."""

    argmax: Tokens  # (S,)
    entropy: NDArray[np.float32]  # (S,) nats
    labels: NDArray[np.float32]  # (S, L, I) log-probabilities
    top: tuple[Tokens, NDArray[np.float32]] | None  # (S, K) likeliest tokens and their probabilities

    @staticmethod
    def from_logits(logits: Tensor, ids: Tensor, top_k: int) -> _Rows:
        """Computes the results from logits (S, V) and the labels' tokens (S, L, I)."""
        parts: list[tuple[Tensor, ...]] = []
        for rows, own in zip(torch.split(logits, ROWS), torch.split(ids, ROWS), strict=True):
            logprobs = torch.log_softmax(in_fp64(rows), dim=-1)
            labels = logprobs.gather(1, own.flatten(1).to(logprobs.device)).clamp_min(LEAST).view(own.shape)
            best = logprobs.topk(min(max(1, top_k), rows.shape[1]), dim=-1)
            entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
            parts.append((rows.argmax(dim=-1), entropy, labels, best.indices, best.values.exp()))
        argmax, entropy, labels, best_ids, shares = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
        top = (to_host(best_ids), shares.float().numpy()) if top_k else None
        return _Rows(to_host(argmax), entropy.float().numpy(), labels.float().numpy(), top)


@dataclass(frozen=True)
class _Sheet:
    """A layout as arrays."""

    layout: Layout
    canvas: Tokens  # (C,), 0 at the slots
    positions: Tensor  # (S,) of the slots
    ids: Tensor  # (S, L, I) of the labels' tokens; where there are fewer, the last one again
    pinned: NDArray[np.bool_]  # (C,) False at the slots

    @staticmethod
    def from_layout(layout: Layout, vocab_size: int) -> _Sheet:
        """Returns the arrays of a layout.

        Raises:
            SafelightError: it has a token that is not in the vocabulary.
        """
        raw = np.array(layout.canvas, dtype=np.int32)
        ids = _block([slot.labels for slot in layout.slots])
        largest = max(int(raw.max()), int(ids.max()))
        if largest >= vocab_size:
            raise SafelightError(f"token id {largest} is outside the vocabulary of {vocab_size} tokens")
        positions = torch.tensor([slot.position for slot in layout.slots])
        pinned = raw != NOISE
        return _Sheet(layout, np.where(pinned, raw, 0).astype(np.int32), positions, ids, pinned)

    def with_noise(self, generator: torch.Generator, vocab_size: int) -> Tensor:
        """Returns the canvas (C,) with a random token at each slot."""
        noise = sampling.uniform_tokens((len(self.positions),), vocab_size, generator)
        return torch.from_numpy(self.canvas).long().index_put((self.positions,), noise)

    def filled(self, tokens: Tokens) -> Tokens:
        """Returns the canvas (C,) with tokens (S,) at the slots."""
        canvas = self.canvas.copy()
        canvas[self.positions.numpy()] = tokens
        return canvas

    def spread(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns (C,) values: those (S,) at the slots, 0 elsewhere."""
        everywhere = np.zeros(len(self.canvas), dtype=np.float32)
        everywhere[self.positions.numpy()] = values
        return everywhere

    def likeliest(self, argmax: Tokens, rows: _Rows) -> tuple[Tokens, NDArray[np.float32]] | tuple[()]:
        """Returns the likeliest tokens (C, K) and their probabilities; pinned tokens have probability 1."""
        if rows.top is None:
            return ()
        ids, shares = rows.top
        tokens = np.repeat(argmax[:, None], ids.shape[1], axis=1)
        certain = np.zeros(tokens.shape, dtype=np.float32)
        certain[:, 0] = 1.0
        places = self.positions.numpy()
        tokens[places], certain[places] = ids, shares
        return tokens, certain

    def of_labels(self, labels: NDArray[np.float32]) -> tuple[NDArray[np.float32], ...]:
        """Returns the log-probabilities of each slot's labels, from (S, L, I): the best of each label's tokens."""
        best = labels.max(axis=2)
        return tuple(row[: len(slot.labels)].copy() for row, slot in zip(best, self.layout.slots, strict=True))

    def are_labels(self, argmax: Tokens) -> tuple[bool, ...]:
        """Returns for each slot whether its token is one of its labels."""
        slots = zip(argmax.tolist(), self.layout.slots, strict=True)
        return tuple(any(token in label for label in slot.labels) for token, slot in slots)

    def answer(self, reads: Sequence[Sequence[NDArray[np.float32]]]) -> Tokens:
        """Returns the likeliest label of each slot over all reads, as a token (S,)."""
        tokens = []
        for slot, *own in zip(self.layout.slots, *reads, strict=True):
            shares = np.mean([LabelRead(tuple(one.tolist())).probabilities() for one in own], axis=0)
            tokens.append(slot.labels[int(shares.argmax())][0])
        return np.array(tokens, dtype=np.int32)


def _block(slots: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Returns the token ids of the slots' labels (S, L, I), padded with the last ones."""
    most, tokens = max(map(len, slots)), max(len(label) for labels in slots for label in labels)
    rows = [[[*label, *[label[-1]] * (tokens - len(label))] for label in labels] for labels in slots]
    return torch.tensor([[*labels, *[labels[-1]] * (most - len(labels))] for labels in rows])


def slot_logits(run: Run, canvas: Tensor, slots: Sequence[int], *, in_blocks: bool) -> Passes[Tensor]:
    """Returns the logits (S, V) at positions of a canvas (C,), rising, which has masks there.

    Args:
        in_blocks: the model reads text in blocks.
    """
    shape = run.model.config
    assert isinstance(shape, CausalConfig), "a model that writes over masks"
    if in_blocks:
        return (yield from _in_blocks(run, shape, canvas, slots))
    run.cache.truncate(0)
    first = len(run.prompt) + slots[0] - shape.shifts_masks
    wanted = Decode(torch.cat([run.prompt, canvas]), run.cache, 0, first, is_causal=False)
    yield wanted
    return wanted.take()[[slot - slots[0] for slot in slots]]


def _in_blocks(run: Run, shape: CausalConfig, canvas: Tensor, slots: Sequence[int]) -> Passes[Tensor]:
    length, size, logits = len(run.prompt), shape.canvas_length, list[Tensor]()
    blocks = Blocks.ending_at(length, size) if shape.blocks_follow_prompt else Blocks(size)
    begun = 0 if shape.blocks_follow_prompt else length % size
    known = run.prompt[: length - begun]
    reuse_prefix(run.cache, [known], blocks)
    run.cache.reserve(length + len(canvas))
    yield from prefill([known], run.cache, None)
    rest = torch.cat([run.prompt[length - begun :], canvas])
    for start in range(0, begun + slots[-1] + 1, size):
        ids = rest[start : start + size]
        rows = [begun + slot - start for slot in slots if start <= begun + slot < start + size]
        if rows:
            wanted = Decode(ids, run.cache, 0, 0, is_causal=False)
            yield wanted
            logits.append(wanted.take()[rows])
        if start + size <= begun + slots[-1]:
            yield from commit(ids, run.cache)
    run.cache.truncate(min(run.cache.length, len(known)))
    return torch.cat(logits)
