"""Block diffusion: denoise a canvas until it converges, commit its argmax, go on with the next.

Draws come from one seeded generator in a fixed order: a canvas of noise a block, then a row of candidates and a
canvas of noise a step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine import sampling
from engine.config import GenerationConfig, ModelConfig
from engine.decoders.base import Cancel, Denoiser
from engine.errors import SafelightError
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
    Tokens,
)
from engine.stopping import StableAndConfident, Stopping


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_diffusion(
    model: Denoiser, prompt: Tensor, config: GenerationConfig, seed: int, cancel: Cancel | None
) -> Iterator[Event]:
    """Generate text after ``prompt`` (T,). Cancelling takes effect within one step."""
    sampler = _Sampler.of(model.config, config, model.device, seed)
    room = model.config.max_position_embeddings - prompt.shape[0]
    if room < sampler.length:
        raise SafelightError(
            f"the prompt is {prompt.shape[0]} tokens long and the model has {model.config.max_position_embeddings} "
            f"positions, {sampler.length} of which a canvas needs. Shorten the prompt"
        )
    blocks = min(-(-config.max_new_tokens // sampler.length), room // sampler.length)
    started = time.perf_counter()
    cache = model.new_cache()
    model.prefill(prompt, cache)
    yield PrefillFinished(prompt.shape[0], 0, time.perf_counter() - started)

    done: list[Tokens] = []
    steps, reason, spent = 0, "length", 0.0
    for block in range(blocks):
        canvas = sampler.first_canvas(block)
        yield CanvasStarted(block, _numpy(canvas), sampler.pinned_mask(block))
        conditioning: Tensor | None = None
        history: list[Tensor] = []
        converged = False
        for step in range(config.max_denoising_steps):
            if cancel is not None and cancel.is_set():
                yield _finished("cancelled", done, steps, spent)
                return
            clock = time.perf_counter()
            temperature = config.temperature(step)
            logits = sampler.scale(model.denoise(canvas, cache, conditioning), temperature, block, step)
            candidates, entropy, accepted, canvas = sampler.step(logits)
            argmax = logits.argmax(dim=-1)
            history = [*history, argmax][-config.stability_threshold - 1 :]
            converged = sampler.stop(history, entropy)
            conditioning = logits.to(model.dtype)  # as the reference does: in bf16 it is fed back rounded
            steps += 1
            top = sampler.top(logits)
            seconds = time.perf_counter() - clock
            spent += seconds
            yield StepFinished(
                block,
                step,
                temperature,
                _numpy(argmax),
                _numpy(candidates),
                entropy.float().cpu().numpy(),
                accepted.cpu().numpy(),
                _numpy(canvas),
                seconds,
                *top,
            )
            if converged:
                break
        tokens, text_length = _cut_at_eos(_numpy(history[-1]), config)
        done.append(tokens[:text_length])
        yield CanvasCommitted(block, tokens, text_length, step + 1, "converged" if converged else "step_cap")
        if text_length < len(tokens):
            reason = "eos"
            break
        if block + 1 < blocks:
            clock = time.perf_counter()
            model.prefill(history[-1], cache)
            spent += time.perf_counter() - clock
    yield _finished(reason, done, steps, spent)


@dataclass(frozen=True)
class _Sampler:
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
    def of(shape: ModelConfig, config: GenerationConfig, device: torch.device, seed: int) -> _Sampler:
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
        return _Sampler(config, length, shape.vocab_size, generator, stop, allowed, pinned, forbidden)

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

    def scale(self, logits: Tensor, temperature: float, block: int, step: int) -> Tensor:
        """Temperature-scaled logits (C, V); forbidden tokens at -inf, pinned positions certain of their token."""
        if not bool(torch.isfinite(logits).all()):
            raise SafelightError(
                f"the model gave non-finite logits in block {block}, step {step}; the weights may be damaged, or "
                "the number type too narrow (use float32 or bfloat16)"
            )
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

    def top(self, logits: Tensor) -> tuple[Tokens, NDArray[np.float32]] | tuple[()]:
        """The likeliest tokens of every position and their probabilities, (C, K) each; nothing if not asked for."""
        if not self.config.top_k:
            return ()
        best = torch.softmax(logits, dim=-1).topk(min(self.config.top_k, self.vocab_size), dim=-1)
        return _numpy(best.indices), best.values.float().cpu().numpy()


def _cut_at_eos(tokens: Tokens, config: GenerationConfig) -> tuple[Tokens, int]:
    """The canvas with everything after its first end token padded, and the number of tokens before that."""
    ends = np.flatnonzero(np.isin(tokens, config.eos_token_ids))
    if not len(ends):
        return tokens, len(tokens)
    first = int(ends[0])
    tokens = tokens.copy()
    tokens[first + 1 :] = config.pad_token_id
    return tokens, first


def _numpy(tokens: Tensor) -> Tokens:
    return tokens.to("cpu", torch.int32).numpy()


def _finished(reason: str, done: list[Tokens], steps: int, seconds: float) -> GenerationFinished:
    tokens = np.concatenate(done) if done else np.empty(0, dtype=np.int32)
    return GenerationFinished(reason, tokens, len(done), steps, seconds)  # type: ignore[arg-type]
