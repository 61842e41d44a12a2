"""One denoising step as a fixed program over fixed buffers; on CUDA it is captured once and replayed.

The program is ``steppers``'s step in the kernels' terms: nothing in it depends on a value that only the host
knows. The text's length, the step, the sampler's settings and the random streams are on the device. A canvas writes its
keys and values into the cache's buffers at a place read from there. Everything that an event needs is left in buffers,
with the flag for a converged canvas, and copied to the host behind the step.

A canvas's first step may also commit the canvas before it: both go through the layers in one pass, text first, so that
the weights are read once for the two. Programs of several runs can take their steps in one pass: see ``step_batch``.

Knows neither files nor events. The plain stepper is its oracle.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.nn import functional as F

from engine import kernels
from engine.config import GenerationConfig
from engine.decoders import ACCEPTANCE
from engine.decoding import sampling
from engine.decoding.acceptance import rule_of
from engine.kernels.reference_step import VocabularyResult
from engine.layers.attention import Extend, Span
from engine.layers.embedding import TOP_PIECE
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma

T = TypeVar("T")

CAPTURE_ERRORS = "thread_local"  # other threads of the app may use the device during a capture
WARM_UP = 2  # steps before a capture, in which kernels compile and libraries make their workspaces
NOISE = 0x5AFE116  # makes the noise's seed differ from the run's seed, which draws the first canvases


class StepFacts(NamedTuple):
    """The facts of one step on the host. C positions."""

    argmax: Tensor  # (C,) int64
    candidates: Tensor  # (C,) int64
    accepted: Tensor  # (C,) bool
    next_canvas: Tensor  # (C,) int64
    entropy: Tensor  # (C,) fp32, nats
    converged: bool
    finite: bool
    top: tuple[Tensor, Tensor] | None  # (C, K): likeliest tokens, and their probabilities


@dataclass(frozen=True)
class _Slot:
    """Host memory for a step's facts; there are two, so that one can be read while the other is written."""

    tensors: tuple[Tensor, ...]  # as ``StepProgram._facts``
    arrived: torch.cuda.Event | None


class StepProgram:
    """The step of one network on one cache, which it does not keep alive.

    It serves run after run. A graph is captured when it is needed, and again if ``KVCache.reserve`` moved buffers. The
    graphs of all programs of a cache share their memory: only one of them takes a step at a time.

    Args:
        network: whose experts run without a value from the host (packed, or few).
        cache: of the text so far.
        length: of the canvas.
        forbidden: (V,) True where a token may not be sampled.
        allowed: (A,) ids that noise is drawn from.
        top_k: likeliest tokens reported for each position; above 0 the table is read once more in each step.
    """

    def __init__(
        self,
        network: DiffusionGemma,
        cache: KVCache,
        length: int,
        forbidden: Tensor | None = None,
        allowed: Tensor | None = None,
        top_k: int = 0,
    ) -> None:
        self.network, self.length, self._cache = network, length, weakref.ref(cache)
        self.forbidden, self.choices = forbidden, network.config.vocab_size if allowed is None else allowed
        device, hidden = network.device, network.config.hidden_size
        self.generator = torch.Generator("cpu" if device.type == "meta" else device)  # of the noise
        self.ids = torch.zeros(2 * length, dtype=torch.long, device=device)  # a canvas to commit, and the current one
        self.commits = False  # the canvas's first step commits the one before
        self.rule = rule_of(GenerationConfig())
        self.pinned = torch.full((length,), -1, dtype=torch.int32, device=device)
        self.kept = torch.zeros(length, dtype=torch.bool, device=device)  # places that stay as they are, or are pinned
        self.soft = torch.zeros(length, hidden, dtype=network.dtype, device=device)
        self.previous = torch.zeros(length, dtype=torch.long, device=device)
        self.unchanged = torch.zeros(1, dtype=torch.long, device=device)
        self.start = torch.zeros(1, dtype=torch.long, device=device)  # position of the canvas's first token
        self.draw = torch.zeros(2, dtype=torch.long, device=device)  # seed; steps taken in the run
        self.step = torch.zeros(1, dtype=torch.long, device=device)  # of this canvas
        self.knobs = torch.zeros(8, dtype=torch.float32, device=device)
        kinds: set[str] = {layer.kind for layer in network.config.layers}
        self.spans = {kind: torch.zeros(1, 2, dtype=torch.int32, device=device) for kind in kinds}
        self.offsets = torch.arange(-length, length, device=device)  # of all rows from the canvas's first
        self.tokens = torch.zeros(4, length, dtype=torch.long, device=device)
        self.entropy = torch.zeros(length, dtype=torch.float32, device=device)
        self.flags = torch.zeros(2, dtype=torch.int32, device=device)
        self.top_ids = torch.zeros(length, min(top_k, network.config.vocab_size), dtype=torch.long, device=device)
        self.top_shares = torch.zeros(self.top_ids.shape, dtype=torch.float32, device=device)
        self.hidden: Tensor | None = None  # (C, H) that the last step predicted from
        self.slots = [self._slot(), self._slot()]
        self.fused = network.fused() if kernels.run_on(device, network.dtype) else None
        self.captures = device.type == "cuda" and self.fused is not None  # else a graph would know one rule alone
        self.runs_aside = self.captures  # ``launch`` returns before the step is done
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}  # of the step, by whether it commits
        self.predicted: dict[bool, Tensor | None] = {}  # ``hidden`` in the memory of each of them
        self.known: list[int] = []  # the places of the cache's buffers, which the graphs depend on
        self.of_cache = _OF_CACHES.setdefault(cache, WeakSet())
        self.of_cache.add(self)

    @property
    def cache(self) -> KVCache:
        """The cache; the caller keeps it alive."""
        cache = self._cache()
        assert cache is not None
        return cache

    @property
    def canvas(self) -> Tensor:
        """The input of the next step (C,)."""
        return self.ids[self.length :]

    # --- what the host does ------------------------------------------------------------------------------------------

    def begin(
        self, canvas: Tensor, pinned: Tensor | None, config: GenerationConfig, committed: Tensor | None = None
    ) -> None:
        """Puts a fresh canvas (C,) behind the cache's text.

        Args:
            pinned: (C,) token ids, -1 where free.
            committed: (C,) token ids that step 0 adds to the text before the canvas. Once it is launched, the caller
                advances the cache by them.
        """
        self.commits = committed is not None
        text = 0 if committed is None else self.length
        if committed is not None:
            self.ids[: self.length].copy_(committed)
        self.canvas.copy_(canvas)
        self.pinned.fill_(-1) if pinned is None else self.pinned.copy_(pinned)
        self.kept.copy_(self.pinned >= 0)
        self.soft.zero_()
        self.unchanged.zero_()
        self.step.zero_()
        self.previous.fill_(-1)
        self.start.fill_(self.cache.length + text)
        for kind, span in self.cache.spans(self.length, text).items():
            self.spans[kind].copy_(torch.tensor([span], dtype=torch.int32))
        self.knobs.copy_(torch.tensor(knobs_of(config), dtype=torch.float32))
        self.rule = rule_of(config)
        if self.captures:
            self._drop_graphs_of_others()

    def seed(self, seed: int) -> None:
        """Restarts the random streams."""
        self.generator.manual_seed(seed ^ NOISE)
        self.draw.copy_(torch.tensor([seed, 0]))

    def launch(self, index: int) -> None:
        """Starts step ``index`` of the canvas; on a GPU it returns before the step is done."""
        commits = self.commits_at(index)
        if self.captures:
            self._capture_missing(is_to_commit=commits)
        if commits in self.graphs:
            self.graphs[commits].replay()
            self.hidden = self.predicted[commits]
        else:
            self.run_step(commits)
        self.send(index)

    def commits_at(self, index: int) -> bool:
        """True if step ``index`` of the canvas commits the one before."""
        return self.commits and index == 0

    def send(self, index: int) -> None:
        """Copies the facts of step ``index`` to the host, behind the step."""
        slot = self.slots[index % 2]
        for host, here in zip(slot.tensors, self._facts, strict=True):
            host.copy_(here, non_blocking=True)
        if slot.arrived is not None:
            slot.arrived.record()

    def collect(self, index: int) -> StepFacts:
        """Waits for step ``index`` and returns its facts; they are valid until step ``index + 2`` is launched."""
        slot = self.slots[index % 2]
        if slot.arrived is not None:
            slot.arrived.synchronize()
        tokens, entropy, flags, top_ids, top_shares = slot.tensors
        argmax, candidates, accepted, next_canvas = tokens
        converged, not_finite = flags.tolist()
        top = (top_ids, top_shares) if top_ids.numel() else None
        return StepFacts(
            argmax, candidates, accepted.bool(), next_canvas, entropy, bool(converged), not not_finite, top
        )

    # --- what the device does ----------------------------------------------------------------------------------------

    def run_step(self, commits: bool = False) -> None:
        """Runs the whole step; the first of a canvas may commit the one before. Every line runs on the device alone."""
        hidden = self.layers(self.length if commits else 0)
        result = self.vocabulary(hidden)
        self.hidden = hidden
        if self.top_ids.numel():
            find_likeliest([self], hidden, [result.logsumexp])
        self.settle(result)

    def layers(self, text_rows: int = 0) -> Tensor:
        """Runs the canvas (C,) and ``text_rows`` of text before it through all layers; returns hidden states (C, H)."""
        network, cache, spans = self.network, self.cache, self.spans_with(text_rows)
        ids, offsets = (rows[self.length - text_rows :] for rows in (self.ids, self.offsets))
        if self.fused is not None:
            x = self.fused.embed(ids, self.soft, text_rows)
            hidden = self.fused(x, self.fused.ropes(self.start, -text_rows, len(ids)), spans, cache)
        else:
            embedded = network.embed(ids)[None]
            x = network.self_conditioning(embedded[:, text_rows:], self.soft[None])
            if text_rows:
                x = torch.cat([embedded[:, :text_rows], x], dim=1)
            extends = [self.writer(index, offsets) for index in range(len(network.layers))]
            hidden = network.run(x, self.start + offsets, spans, extends, text_rows)[0]
        return hidden[text_rows:]

    def spans_with(self, text_rows: int) -> dict[str, Span]:
        """Returns the span that the canvas and ``text_rows`` of text before it attend to, for each kind of layer."""
        window = self.network.config.sliding_window
        return {
            kind: Span(bounds, text_rows, window if kind == "sliding_attention" else None)
            for kind, bounds in self.spans.items()
        }

    def temperature(self, step: Tensor) -> Tensor:
        """Returns the temperature (1,) of step (1,) of the canvas."""
        t_min, t_max, most = self.knobs[:3].unbind()
        return t_min + (t_max - t_min) * ((most - step) / most)

    def vocabulary(self, hidden: Tensor) -> VocabularyResult:
        """Returns the sampler's inputs and the next soft embedding, from hidden states (C, H)."""
        return kernels.vocabulary_stage(
            hidden,
            self.network.embed_tokens.table,
            temperature=self.temperature(self.step),
            draw=self.draw,
            cap=self.network.config.final_logit_softcapping,
            embed_scale=self.network.embed_scale,
            forbidden=self.forbidden,
            pinned=self.pinned,
        )

    def keep_likeliest(self, best: Sequence[tuple[Tensor, Tensor]], logsumexp: Tensor) -> None:
        """Stores the top k of the ``best`` of all pieces; pinned positions are certain of their token."""
        cap, count = self.network.config.final_logit_softcapping, self.top_ids.shape[1]
        highest = torch.cat([values for values, _ in best], dim=1).float().topk(count, dim=-1)
        # Cap and temperature do not change the order.
        logits = torch.tanh(highest.values / cap) * cap / self.temperature(self.step)
        shares = torch.where(highest.values.isneginf(), 0.0, (logits - logsumexp[:, None]).exp())
        pinned = (self.pinned >= 0)[:, None]
        first = torch.arange(count, device=logits.device) == 0
        likeliest = torch.cat([ids for _, ids in best], dim=1).gather(1, highest.indices)
        self.top_ids.copy_(torch.where(pinned & first, self.pinned[:, None].long(), likeliest))
        self.top_shares.copy_(torch.where(pinned, first.float(), shares))

    def best(self, raw: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Returns the highest raw logits (C, K at most) of one piece of the vocabulary (C, V'), and their tokens."""
        if self.forbidden is not None:
            raw = raw.masked_fill(self.forbidden[start : start + raw.shape[1]], -torch.inf)
        values, ids = raw.topk(min(self.top_ids.shape[1], raw.shape[1]), dim=-1)
        return values, ids + start

    def raw(self, hidden: Tensor, start: int, count: int) -> Tensor:
        """Returns the raw logits (M, count at most) of hidden states (M, H) for one piece of the vocabulary."""
        table = self.network.embed_tokens.table
        piece = table[start : start + count] if isinstance(table, Tensor) else table.rows(start, start + count)
        return F.linear(hidden, piece) if isinstance(piece, Tensor) else kernels.linear(hidden, piece)

    def logits(self, position: int) -> Tensor:
        """Returns the logits (V,) of the last step at a position, without bans, pins and temperature."""
        assert self.hidden is not None, "no step was taken"
        hidden = self.hidden[position : position + 1]
        cap, size = self.network.config.final_logit_softcapping, self.network.config.vocab_size
        raw = torch.cat([self.raw(hidden, start, TOP_PIECE) for start in range(0, size, TOP_PIECE)], dim=1).float()
        return (torch.tanh(raw / cap) * cap)[0]

    def settle(self, result: VocabularyResult) -> None:
        """Accepts, re-noises and judges; leaves the facts and the next step's inputs in their buffers."""
        noise = sampling.uniform_tokens((self.length,), self.choices, self.generator)
        self.soft.copy_(result.soft)
        if self.fused is not None:
            from engine.kernels.settle import Buffers, settle  # needs Triton

            facts, counts = (self.tokens, self.entropy, self.flags), (self.unchanged, self.step, self.draw)
            left = Buffers(*facts, self.canvas, self.kept, self.previous, *counts)
            settle(result, noise, self.pinned, self.knobs[3:], left)
            return
        stability, confidence = self.knobs[4:6].unbind()
        candidates, accepted, is_finished = self.rule(result, self.canvas, self.kept)
        following = sampling.renoise(candidates, accepted, noise)
        same = (result.argmax == self.previous).all()
        self.unchanged.copy_(torch.where(same, self.unchanged + 1, 0))
        converged = (self.unchanged >= stability) & (result.entropy.mean() < confidence) | is_finished
        self.tokens.copy_(torch.stack([result.argmax, candidates, accepted.long(), following]))
        self.entropy.copy_(result.entropy)
        self.flags.copy_(torch.cat([converged.int(), result.nonfinite.int()]))
        self.previous.copy_(result.argmax)
        self.canvas.copy_(following)
        self.kept.copy_(accepted if self.rule.keeps else self.pinned >= 0)
        self.step += 1
        self.draw[1] += 1

    def writer(self, index: int, offsets: Tensor) -> Extend:
        """Returns ``extend`` of a layer: it writes all rows behind the stored tokens and returns the whole buffers."""
        keys, values = self.cache.buffers(index)
        places = self.spans[self.network.config.layers[index].kind][0, 1] - self.length + offsets

        def write(new_keys: Tensor, new_values: Tensor) -> tuple[Tensor, Tensor]:
            keys.index_copy_(2, places, new_keys)
            values.index_copy_(2, places, new_values)
            return keys, values

        return write

    def _drop_graphs_of_others(self) -> None:
        """Drops the graphs if the cache's buffers have moved."""
        places = [part.data_ptr() for index in range(len(self.network.layers)) for part in self.cache.buffers(index)]
        if places != self.known:
            self.graphs, self.predicted, self.known = {}, {}, places

    def _capture_missing(self, is_to_commit: bool) -> None:
        """Captures the missing graphs that the canvas needs from a step on: one step, or one of each kind."""
        # The step that commits comes first: its warm-up writes the text's keys, which the other one's reads.
        for commits in sorted({False, is_to_commit} - self.graphs.keys(), reverse=True):
            with self.undone():
                self.graphs[commits], self.predicted[commits] = self._capture(commits), self.hidden

    def _capture(self, commits: bool) -> torch.cuda.CUDAGraph:
        # Steps run one after the other and leave only ``hidden`` in their own memory, so that all may share it.
        pool = next((graph.pool() for program in self.of_cache for graph in program.graphs.values()), None)
        return capture([self], lambda: self.run_step(commits), pool)[0]

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Restores the canvas and the random streams after steps taken inside.

        These steps write into the cache behind its text, where the canvas's own steps will write.
        """
        changed = (self.ids, self.kept, self.soft, self.previous, self.unchanged, self.step, self.draw)
        before, drawn = [tensor.clone() for tensor in changed], self.generator.get_state()
        try:
            yield
        finally:
            for tensor, kept in zip(changed, before, strict=True):
                tensor.copy_(kept)
            self.generator.set_state(drawn)

    @property
    def _facts(self) -> tuple[Tensor, ...]:
        """The tensors that are copied to the host after a step, in the order in which ``collect`` reads them."""
        return self.tokens, self.entropy, self.flags, self.top_ids, self.top_shares

    def _slot(self) -> _Slot:
        cuda = self.network.device.type == "cuda"
        tensors = tuple(torch.zeros(here.shape, dtype=here.dtype, pin_memory=cuda) for here in self._facts)
        return _Slot(tensors, torch.cuda.Event() if cuda else None)  # type: ignore[no-untyped-call]


_OF_CACHES: WeakKeyDictionary[KVCache, WeakSet[StepProgram]] = WeakKeyDictionary()


def knobs_of(config: GenerationConfig) -> tuple[float, ...]:
    """Returns the settings that are read on the device, for ``StepProgram.knobs``."""
    return (
        config.t_min,
        config.t_max,
        config.max_denoising_steps,
        config.entropy_bound,
        config.stability_threshold,
        config.confidence_threshold,
        list(ACCEPTANCE).index(config.acceptance),
        config.accept_probability,
    )


def capture(programs: Sequence[StepProgram], step: Callable[[], T], pool: Any) -> tuple[torch.cuda.CUDAGraph, T]:
    """Captures a step of programs; returns its graph, and its result, which is in the graph's memory.

    Args:
        pool: of another graph, whose memory this one shares; None: its own.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    for program in programs:
        graph.register_generator_state(program.generator)
    with torch.cuda.graph(graph, pool=pool, capture_error_mode=CAPTURE_ERRORS):
        result = step()
    return graph, result


def find_likeliest(programs: Sequence[StepProgram], hidden: Tensor, logsumexps: Sequence[Tensor]) -> None:
    """Finds the top k for several programs of one network, in a second pass over the table, a piece at a time.

    The logits of a piece take no more memory for several programs than for one.

    Args:
        hidden: the rows (C, H) of each program, one after the other.
        logsumexps: (C,) of each program.
    """
    lengths = [program.length for program in programs]
    piece = TOP_PIECE >> (len(programs) - 1).bit_length()
    best_of: list[list[tuple[Tensor, Tensor]]] = [[] for _ in programs]
    for start in range(0, programs[0].network.config.vocab_size, piece):
        raw = programs[0].raw(hidden, start, piece)
        for program, own, best in zip(programs, torch.split(raw, lengths), best_of, strict=True):
            best.append(program.best(own, start))
    for program, best, logsumexp in zip(programs, best_of, logsumexps, strict=True):
        program.keep_likeliest(best, logsumexp)
