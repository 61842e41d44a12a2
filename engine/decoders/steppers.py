"""How a denoising step is taken: plainly, or as a program on the device. And the sampler's settings as tensors.

The plain stepper draws from one seeded generator in a fixed order: a canvas of noise a block, then a row of candidates
and a canvas of noise a step. It is the oracle, and what golden tests hold to the reference. The device stepper takes
the same steps with draws of its own.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine import sampling
from engine.cache import KVCache
from engine.config import GenerationConfig, ModelConfig
from engine.decoders.base import Denoiser, commit
from engine.errors import SafelightError
from engine.events import Tokens
from engine.models.diffusion_gemma import DiffusionGemma
from engine.step_graph import StepProgram
from engine.stopping import StableAndConfident, Stopping

Top = tuple[Tokens, NDArray[np.float32]] | tuple[()]


@dataclass(frozen=True)
class Step:
    """What one step came to, on the host. C positions."""

    argmax: Tokens
    candidates: Tokens
    entropy: NDArray[np.float32]
    accepted: NDArray[np.bool_]
    next_canvas: Tokens
    converged: bool
    top: Top  # (C, K) likeliest tokens and their probabilities, if asked for


class Stepper(Protocol):
    """Takes the steps of one canvas after another."""

    def commit(self, ids: Tensor) -> None:
        """A finished canvas (C,) becomes part of the cache's text, at the latest when the next one begins."""

    def begin(self, block: int, canvas: Tensor) -> None:
        """A fresh canvas (C,) behind the cache's text."""

    def step(self, index: int) -> Step:
        """Step ``index`` of the canvas, 0 upward.

        Raises:
            SafelightError: the model gave non-finite logits.
        """


@runtime_checkable
class Programmable(Protocol):
    """A model that can run a step as a program on its device."""

    def step_program(self, cache: KVCache, sampler: Sampler) -> StepProgram | None: ...


class LastProgram:
    """Keeps the program of a network's last run, which mostly serves the next one too."""

    def __init__(self) -> None:
        self._program: StepProgram | None = None
        self._serves: tuple[object, ...] = ()  # what it was made for

    def get(self, network: DiffusionGemma, cache: KVCache, sampler: Sampler) -> StepProgram:
        """The network's program on a cache, with a sampler's settings."""
        config = sampler.config
        wanted = (weakref.ref(cache), sampler.length, config.allowed_tokens, config.top_k)
        if self._program is None or self._serves != wanted:
            self._program = None  # its memory first
            self._program = StepProgram(
                network, cache, sampler.length, sampler.forbidden, sampler.allowed, config.top_k
            )
            self._serves = wanted
        return self._program


def stepper_for(model: Denoiser, cache: KVCache, sampler: Sampler) -> Stepper:
    """The device's program where the model has one, else the plain way."""
    if isinstance(model, Programmable):
        program = model.step_program(cache, sampler)
        if program is not None:
            return DeviceStepper(program, sampler)
    return PlainStepper(model, cache, sampler)


class PlainStepper:
    """One step after the other in plain torch, on any device."""

    def __init__(self, model: Denoiser, cache: KVCache, sampler: Sampler) -> None:
        self.model, self.cache, self.sampler = model, cache, sampler

    def commit(self, ids: Tensor) -> None:
        commit(self.model, ids, self.cache)

    def begin(self, block: int, canvas: Tensor) -> None:
        self.block, self.canvas = block, canvas
        self.conditioning: Tensor | None = None
        self.history: list[Tensor] = []

    def step(self, index: int) -> Step:
        sampler, config = self.sampler, self.sampler.config
        logits = self.model.denoise(self.canvas, self.cache, self.conditioning)
        logits = sampler.scale(logits, config.temperature(index), self.block, index)
        candidates, entropy, accepted, self.canvas = sampler.step(logits)
        argmax = logits.argmax(dim=-1)
        self.history = [*self.history, argmax][-config.stability_threshold - 1 :]
        self.conditioning = logits.to(self.model.dtype)  # as the reference does: in bf16 it is fed back rounded
        return Step(
            _numpy(argmax),
            _numpy(candidates),
            entropy.float().cpu().numpy(),
            accepted.cpu().numpy(),
            _numpy(self.canvas),
            sampler.stop(self.history, entropy),
            sampler.top(logits),
        )


class DeviceStepper:
    """Steps of a ``StepProgram``; the next one runs on the device while this one's event is looked at.

    A finished canvas is committed by the first step of the next.
    """

    def __init__(self, program: StepProgram, sampler: Sampler) -> None:
        self.program, self.sampler = program, sampler
        self.finished: Tensor | None = None
        program.seed(sampler.generator.initial_seed())

    def commit(self, ids: Tensor) -> None:
        self.finished = ids

    def begin(self, block: int, canvas: Tensor) -> None:
        self.block = block
        self.program.begin(canvas, self.sampler.pinned_ids(block), self.sampler.config, self.finished)
        self.program.launch(0)
        if self.finished is not None:
            self.program.cache.advance(len(self.finished))
            self.program.cache.name(self.finished.tolist())
            self.finished = None

    def step(self, index: int) -> Step:
        told = self.program.collect(index)
        if not told.finite:
            raise non_finite(self.block, index)
        if not told.converged and index + 1 < self.sampler.config.max_denoising_steps:
            self.program.launch(index + 1)
        return Step(
            _numpy(told.argmax),
            _numpy(told.candidates),
            told.entropy.numpy().copy(),
            told.accepted.numpy(),
            _numpy(told.next_canvas),
            told.converged,
            () if told.top is None else (_numpy(told.top[0]), told.top[1].numpy().copy()),
        )


def non_finite(block: int, step: int) -> SafelightError:
    """What to say of logits that are no numbers."""
    return SafelightError(
        f"the model gave non-finite logits in block {block}, step {step}; the weights may be damaged, or the number "
        "type too narrow (use float32 or bfloat16)"
    )


@dataclass(frozen=True)
class Sampler:
    """The settings of a run as tensors, and its random draws."""

    config: GenerationConfig
    length: int
    vocab_size: int
    generator: torch.Generator
    stop: Stopping
    allowed: Tensor | None  # (A,) token ids
    pinned: tuple[Tensor, Tensor] | None  # positions and token ids of the first block
    forbidden: Tensor | None = field(repr=False)  # (V,) True where a token may not be sampled

    @staticmethod
    def of(shape: ModelConfig, config: GenerationConfig, device: torch.device, seed: int) -> Sampler:
        """Check the canvas options against the model.

        Raises:
            SafelightError: a token outside the vocabulary, a position outside the canvas, a seed canvas that differs in
                size.
        """
        length = config.canvas_length or shape.canvas_length

        def tokens(name: str, ids: tuple[int, ...]) -> Tensor:
            for token in ids:
                if not 0 <= token < shape.vocab_size:
                    raise SafelightError(f"{name} has token id {token}; the vocabulary has {shape.vocab_size} tokens")
            return torch.tensor(ids, device=device, dtype=torch.long)

        if config.seed_canvas is not None:
            tokens("seed_canvas", config.seed_canvas)
            if len(config.seed_canvas) != length:
                raise SafelightError(f"seed_canvas has {len(config.seed_canvas)} tokens; the canvas has {length}")
        pinned = allowed = forbidden = None
        if config.pinned:
            for position, _ in config.pinned:
                if not 0 <= position < length:
                    raise SafelightError(f"pinned position {position} is outside the canvas of {length} tokens")
            positions = torch.tensor([position for position, _ in config.pinned], device=device)
            pinned = (positions, tokens("pinned", tuple(token for _, token in config.pinned)))
        if config.allowed_tokens is not None:
            allowed = tokens("allowed_tokens", config.allowed_tokens)
            forbidden = torch.ones(shape.vocab_size, dtype=torch.bool, device=device)
            forbidden[allowed] = False
        generator = torch.Generator(device=device).manual_seed(seed)
        stop = StableAndConfident(config.stability_threshold, config.confidence_threshold)
        return Sampler(config, length, shape.vocab_size, generator, stop, allowed, pinned, forbidden)

    def _noise(self) -> Tensor:
        choices = self.vocab_size if self.allowed is None else self.allowed
        return sampling.uniform_tokens((self.length,), choices, self.generator)

    def first_canvas(self, block: int) -> Tensor:
        """Noise, or the seed canvas; pinned tokens in place."""
        canvas = self._noise()
        if block == 0 and self.config.seed_canvas is not None:
            canvas = torch.tensor(self.config.seed_canvas, device=canvas.device)
        if block == 0 and self.pinned is not None:
            canvas[self.pinned[0]] = self.pinned[1]
        return canvas

    def pinned_mask(self, block: int) -> NDArray[np.bool_]:
        mask = np.zeros(self.length, dtype=np.bool_)
        if block == 0:
            mask[[position for position, _ in self.config.pinned]] = True
        return mask

    def pinned_ids(self, block: int) -> Tensor | None:
        """The token each position is pinned to, -1 where it is free: int32 (C,); None where nothing is."""
        if block or self.pinned is None:
            return None
        positions, ids = self.pinned
        return torch.full((self.length,), -1, dtype=torch.int32, device=ids.device).index_put((positions,), ids.int())

    def scale(self, logits: Tensor, temperature: float, block: int, step: int) -> Tensor:
        """Temperature-scaled logits (C, V); forbidden tokens at -inf, pinned positions certain of their token."""
        if not bool(torch.isfinite(logits).all()):
            raise non_finite(block, step)
        scaled = logits / temperature
        if self.forbidden is not None:
            scaled = scaled.masked_fill(self.forbidden, -torch.inf)
        if block == 0 and self.pinned is not None:
            positions, ids = self.pinned
            scaled[positions] = -torch.inf
            scaled[positions, ids] = 0.0
        return scaled

    def step(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Candidates, entropy, accepted mask and next canvas, each (C,)."""
        candidates = sampling.sample_candidates(logits, self.generator)
        entropy = sampling.token_entropy(logits)
        accepted = sampling.accept_mask(entropy, self.config.entropy_bound)
        return candidates, entropy, accepted, sampling.renoise(candidates, accepted, self._noise())

    def top(self, logits: Tensor) -> Top:
        """The likeliest tokens of every position and their probabilities, (C, K) each; nothing if not asked for."""
        if not self.config.top_k:
            return ()
        best = torch.softmax(logits, dim=-1).topk(min(self.config.top_k, self.vocab_size), dim=-1)
        return _numpy(best.indices), best.values.float().cpu().numpy()


def _numpy(tokens: Tensor) -> Tokens:
    return tokens.to("cpu", torch.int32).numpy()
