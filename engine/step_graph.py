"""One denoising step as a fixed program over fixed buffers; on CUDA it is captured once and replayed.

The program is the block-diffusion step of ``decoders`` in the kernels' terms: nothing in it depends on a value that
only the host knows. The text's length, the step, the sampler's knobs and the random streams live on the device; a
canvas writes its keys and values into the cache's buffers at a place read from there. All that an event tells is left
in one buffer, with the flag that says whether the canvas has converged, and copied to the host behind the step.

Knows neither files nor events. The plain path of ``decoders`` is its oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from engine import kernels, sampling
from engine.cache import KVCache
from engine.config import GenerationConfig
from engine.kernels.reference_sampling import VocabularyResult
from engine.layers.attention import Extend, Span
from engine.models.diffusion_gemma import DiffusionGemma

TOP_PIECE = 16_384  # tokens of the vocabulary whose logits are held at once for a top k
WARM_UP = 2  # steps before a capture, in which kernels compile and libraries make their workspaces


class Told(NamedTuple):
    """What one step leaves on the host. C positions."""

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
    """Where a step's facts arrive on the host; there are two, so that one can be read while the other is written."""

    tensors: tuple[Tensor, ...]  # as ``StepProgram._told``
    arrived: torch.cuda.Event | None


class StepProgram:
    """The step of one network on one cache. The cache's buffers must stay where they are: see ``KVCache.reserve``.

    Args:
        network: whose experts run without asking the host (packed, or few).
        cache: of the text so far, with room for the canvas.
        length: of the canvas.
        generator: of the noise, on the network's device.
        forbidden: (V,) True where a token may not be sampled. allowed: (A,) ids that noise is drawn from.
        top_k: likeliest tokens told of each position; above 0 the table is read once more a step.
    """

    def __init__(
        self,
        network: DiffusionGemma,
        cache: KVCache,
        length: int,
        generator: torch.Generator,
        forbidden: Tensor | None = None,
        allowed: Tensor | None = None,
        top_k: int = 0,
    ) -> None:
        self.network, self.cache, self.length, self.generator = network, cache, length, generator
        self.forbidden, self.choices = forbidden, network.config.vocab_size if allowed is None else allowed
        device, hidden = network.device, network.config.hidden_size
        self.canvas = torch.zeros(length, dtype=torch.long, device=device)
        self.pinned = torch.full((length,), -1, dtype=torch.int32, device=device)
        self.soft = torch.zeros(length, hidden, dtype=network.dtype, device=device)
        self.previous = torch.zeros(length, dtype=torch.long, device=device)
        self.unchanged = torch.zeros(1, dtype=torch.long, device=device)
        self.start = torch.zeros(1, dtype=torch.long, device=device)  # position of the canvas's first token
        self.draw = torch.zeros(2, dtype=torch.long, device=device)  # seed; steps taken in the run
        self.step = torch.zeros(1, dtype=torch.long, device=device)  # of this canvas
        self.knobs = torch.zeros(6, dtype=torch.float32, device=device)
        self.spans = {kind: torch.zeros(2, dtype=torch.int32, device=device) for kind in cache.spans(length)}
        self.offsets = torch.arange(length, device=device)
        self.tokens = torch.zeros(4, length, dtype=torch.long, device=device)
        self.entropy = torch.zeros(length, dtype=torch.float32, device=device)
        self.flags = torch.zeros(2, dtype=torch.int32, device=device)
        self.top_ids = torch.zeros(length, min(top_k, network.config.vocab_size), dtype=torch.long, device=device)
        self.top_shares = torch.zeros(self.top_ids.shape, dtype=torch.float32, device=device)
        self.slots = [self._slot(), self._slot()]
        self.fused = None
        if kernels.why_plain(device) is None:
            from engine.layers.fused import FusedLayers

            self.fused = FusedLayers(network, cache)
        self.graph = self._capture() if device.type == "cuda" else None

    # --- what the host does ------------------------------------------------------------------------------------------

    def begin(self, canvas: Tensor, pinned: Tensor | None, config: GenerationConfig) -> None:
        """Put a fresh canvas (C,) behind the cache's text. pinned: (C,) token ids, -1 where free."""
        self.canvas.copy_(canvas)
        self.pinned.fill_(-1) if pinned is None else self.pinned.copy_(pinned)
        self.soft.zero_()
        self.unchanged.zero_()
        self.step.zero_()
        self.previous.fill_(-1)
        self.start.fill_(self.cache.length)
        for kind, span in self.cache.spans(self.length).items():
            self.spans[kind].copy_(torch.tensor(span, dtype=torch.int32))
        knobs = (
            config.t_min,
            config.t_max,
            config.max_denoising_steps,
            config.entropy_bound,
            config.stability_threshold,
            config.confidence_threshold,
        )
        self.knobs.copy_(torch.tensor(knobs, dtype=torch.float32))

    def seed(self, seed: int) -> None:
        """Begin a run's random streams."""
        self.generator.manual_seed(seed)
        self.draw.copy_(torch.tensor([seed, 0]))

    def launch(self, index: int) -> None:
        """Start step ``index`` of the canvas; returns before it is done on a GPU."""
        if self.graph is None:
            self.run_step()
        else:
            self.graph.replay()
        slot = self.slots[index % 2]
        for host, here in zip(slot.tensors, self._told, strict=True):
            host.copy_(here, non_blocking=True)
        if slot.arrived is not None:
            slot.arrived.record()

    def collect(self, index: int) -> Told:
        """Wait for step ``index`` and what it has to tell; good until step ``index + 2`` is launched."""
        slot = self.slots[index % 2]
        if slot.arrived is not None:
            slot.arrived.synchronize()
        tokens, entropy, flags, top_ids, top_shares = slot.tensors
        argmax, candidates, accepted, next_canvas = tokens
        converged, not_finite = flags.tolist()
        top = (top_ids, top_shares) if top_ids.numel() else None
        return Told(argmax, candidates, accepted.bool(), next_canvas, entropy, bool(converged), not not_finite, top)

    # --- what the device does ----------------------------------------------------------------------------------------

    def run_step(self) -> None:
        """The whole step. Every line runs on the device alone."""
        network = self.network
        embedded = network.self_conditioning(network.embed(self.canvas)[None], self.soft[None])
        positions = self.start + self.offsets
        if self.fused is not None:
            hidden = self.fused(embedded[0], network.ropes(positions, embedded.dtype), self.spans)
        else:
            masks = {kind: Span(span) for kind, span in self.spans.items()}
            extends = [self._writer(index) for index in range(len(network.layers))]
            hidden = network.run(embedded, positions, masks, extends, causal=False)[0]
        found = self.vocabulary(hidden)
        if self.top_ids.numel():
            self._likeliest(hidden, found.logsumexp)
        self.settle(found)

    def _temperature(self) -> Tensor:
        t_min, t_max, most = self.knobs[:3].unbind()
        return t_min + (t_max - t_min) * ((most - self.step) / most)  # (1,)

    def vocabulary(self, hidden: Tensor) -> VocabularyResult:
        """Hidden states (C, H) -> what the sampler needs of their logits, and the next soft embedding."""
        return kernels.vocabulary_stage(
            hidden,
            self.network.embed_tokens.table,
            temperature=self._temperature(),
            draw=self.draw,
            cap=self.network.config.final_logit_softcapping,
            embed_scale=self.network.embed_scale,
            forbidden=self.forbidden,
            pinned=self.pinned,
        )

    def _likeliest(self, hidden: Tensor, logsumexp: Tensor) -> None:
        """Top k in a second walk over the table, a piece at a time; pinned positions are certain of their token."""
        table, cap, count = (
            self.network.embed_tokens.table,
            self.network.config.final_logit_softcapping,
            self.top_ids.shape[1],
        )
        best = torch.full((self.length, 0), 0.0, device=hidden.device)
        ids = torch.zeros((self.length, 0), dtype=torch.long, device=hidden.device)
        for start in range(0, self.network.config.vocab_size, TOP_PIECE):
            piece = (
                table[start : start + TOP_PIECE] if isinstance(table, Tensor) else table.rows(start, start + TOP_PIECE)
            )
            raw = F.linear(hidden, piece) if isinstance(piece, Tensor) else kernels.linear(hidden, piece)
            logits = torch.tanh(raw.float() / cap) * cap / self._temperature()
            if self.forbidden is not None:
                logits = logits.masked_fill(self.forbidden[start : start + TOP_PIECE], -torch.inf)
            found = logits.topk(min(count, logits.shape[1]), dim=-1)
            best, order = torch.cat([best, found.values], dim=1).topk(
                min(count, best.shape[1] + found.values.shape[1]), dim=1
            )
            ids = torch.cat([ids, found.indices + start], dim=1).gather(1, order)
        shares = (best - logsumexp[:, None]).exp()
        pinned = (self.pinned >= 0)[:, None]
        first = torch.arange(count, device=hidden.device) == 0
        self.top_ids.copy_(torch.where(pinned & first, self.pinned[:, None].long(), ids))
        self.top_shares.copy_(torch.where(pinned, first.float(), shares))

    def settle(self, found: VocabularyResult) -> None:
        """Accept, re-noise and judge; leave the facts and the next step's inputs in their buffers."""
        bound, stability, confidence = self.knobs[3:].unbind()
        accepted = sampling.accept_mask(found.entropy, bound)
        noise = sampling.uniform_tokens((self.length,), self.choices, self.generator)
        following = sampling.renoise(found.candidate, accepted, noise)
        same = (found.argmax == self.previous).all()
        self.unchanged.copy_(torch.where(same, self.unchanged + 1, 0))
        converged = (self.unchanged >= stability) & (found.entropy.mean() < confidence)
        self.tokens.copy_(torch.stack([found.argmax, found.candidate, accepted.long(), following]))
        self.entropy.copy_(found.entropy)
        self.flags.copy_(torch.cat([converged.int(), found.nonfinite.int()]))
        self.previous.copy_(found.argmax)
        self.soft.copy_(found.soft)
        self.canvas.copy_(following)
        self.step += 1
        self.draw[1] += 1

    def _writer(self, index: int) -> Extend:
        """``extend`` for a layer: writes the canvas behind its stored tokens and returns the whole buffers."""
        keys, values = self.cache.buffers(index)
        end = self.spans[self.network.config.layers[index].kind][1]
        places = end - self.length + self.offsets

        def write(new_keys: Tensor, new_values: Tensor) -> tuple[Tensor, Tensor]:
            keys.index_copy_(2, places, new_keys)
            values.index_copy_(2, places, new_values)
            return keys, values

        return write

    def _capture(self) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        self.begin(self.canvas, None, GenerationConfig())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.run_step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph):
            self.run_step()
        return graph

    @property
    def _told(self) -> tuple[Tensor, ...]:
        """What is copied to the host after a step, in the order in which ``collect`` reads it."""
        return self.tokens, self.entropy, self.flags, self.top_ids, self.top_shares

    def _slot(self) -> _Slot:
        cuda = self.network.device.type == "cuda"
        tensors = tuple(torch.zeros(here.shape, dtype=here.dtype, pin_memory=cuda) for here in self._told)
        return _Slot(tensors, torch.cuda.Event() if cuda else None)  # type: ignore[no-untyped-call]
