"""The sampler's settings as tensors, and its random draws.

All draws come from one seeded generator in a fixed order: a canvas of noise for each block, then candidates
and a canvas of noise for each step. The number of draws depends only on the canvas's length and the vocabulary's size,
never on a value, a pin or a ban. So draws can be skipped, and a ban changes nothing if no banned token would have been
drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.config import GenerationConfig, ModelConfig
from engine.decoding import sampling
from engine.decoding.acceptance import Accepted, OfLogits, Rule, rule_of
from engine.decoding.sampling import TRANSFORMERS, cut
from engine.errors import SafelightError
from engine.events import step_number
from engine.types import Tokens

Top = tuple[Tokens, NDArray[np.float32]] | tuple[()]
Edits = Sequence[tuple[int, int]]  # (position, token id)


def non_finite(block: int, step: int) -> SafelightError:
    return SafelightError(
        f"the model gave non-finite logits in block {block + 1}, step {step_number(step)}; the weights may be damaged, "
        "or the number type too narrow (use float32 or bfloat16)"
    )


@dataclass(frozen=True)
class Sampler:
    """The settings of a run, or of a part of it, and the run's random draws."""

    config: GenerationConfig
    length: int
    vocab_size: int
    generator: torch.Generator
    stop: StableAndConfident
    pinned: tuple[Tensor, Tensor] | None  # positions and token ids of one block
    forbidden: Tensor | None = field(repr=False)  # (V,) True where a token may not be sampled
    instead: Tensor | None = field(repr=False)  # (V,) each token, or the substitute of a banned one
    pinned_block: int = 0

    @staticmethod
    def from_settings(shape: ModelConfig, config: GenerationConfig, device: torch.device, seed: int) -> Sampler:
        """Checks the canvas options against the model.

        Raises:
            SafelightError: a token outside the vocabulary, a position outside the canvas, a seed canvas of another
                size, no token that is left.
        """
        generator = torch.Generator(device=device).manual_seed(seed)
        return _made(config, config.canvas(shape.canvas_length), shape.vocab_size, generator, 0)

    def changed(self, config: GenerationConfig, block: int, length: int = 0) -> Sampler:
        """Returns other settings on the same random stream; ``config.pinned`` are pins of ``block``.

        Args:
            length: of the canvases from there on; 0: as before.

        Raises:
            SafelightError: as ``from_settings``.
        """
        return _made(config, length or self.length, self.vocab_size, self.generator, block)

    def resized(self, length: int) -> Sampler:
        """Returns the same settings for canvases of another length; the pins of an earlier block stay unchecked."""
        return dataclasses.replace(self, length=length)

    @cached_property
    def rule(self) -> Rule:
        """The rule by which a step accepts."""
        return rule_of(self.config)

    def noise(self) -> Tensor:
        """Draws a canvas of noise (C,)."""
        choices = self.vocab_size if self.instead is None else self.instead
        return sampling.uniform_tokens((self.length,), choices, self.generator)

    def first_canvas(self, block: int, edits: Edits = ()) -> Tensor:
        """Returns noise, with edits and pinned tokens in place."""
        return self.amended(self.noise(), block, edits)

    def amended(self, canvas: Tensor, block: int, edits: Edits = ()) -> Tensor:
        """Returns a canvas (C,) that follows these settings: nothing banned, then the edits, then the pinned tokens."""
        canvas = canvas.clone() if self.instead is None else self.instead[canvas]
        for position, token in edits:
            canvas[position] = token
        if block == self.pinned_block and self.pinned is not None:
            canvas[self.pinned[0]] = self.pinned[1]
        return canvas

    def check_edits(self, edits: Edits) -> None:
        """Checks that edits can be made.

        Raises:
            SafelightError: a position outside the canvas, a token outside the vocabulary or banned.
        """
        check_cells("edited", edits, self.length, self.vocab_size)
        for position, token in edits:
            if token in self.config.banned_tokens:
                raise SafelightError(f"position {position} is edited to token {token}, which is banned; release one")

    def pinned_mask(self, block: int) -> NDArray[np.bool_]:
        mask = np.zeros(self.length, dtype=np.bool_)
        if block == self.pinned_block:
            mask[[position for position, _ in self.config.pinned]] = True
        return mask

    def pinned_ids(self, block: int) -> Tensor | None:
        """Returns the token ids of pinned positions, -1 where free, as int32 (C,); None if nothing is pinned."""
        if block != self.pinned_block or self.pinned is None:
            return None
        positions, ids = self.pinned
        return torch.full((self.length,), -1, dtype=torch.int32, device=ids.device).index_put((positions,), ids.int())

    def scale(self, logits: Tensor, temperature: float, block: int, step: int) -> Tensor:
        """Returns logits (C, V) at a temperature; forbidden tokens at -inf, pinned positions certain of their token.

        What top-k, top-p and min-p leave out is at -inf, too. It is cut off before the temperature, as vLLM does.
        """
        if not bool(torch.isfinite(logits).all()):
            raise non_finite(block, step)
        if self.forbidden is not None:
            logits = logits.masked_fill(self.forbidden, -torch.inf)
        if self.config.cuts:
            logits = cut(logits, self.config, TRANSFORMERS)
        scaled = logits / temperature
        if block == self.pinned_block and self.pinned is not None:
            positions, ids = self.pinned
            scaled[positions] = -torch.inf
            scaled[positions, ids] = 0.0
        return scaled

    def step(self, logits: Tensor, canvas: Tensor, kept: Tensor) -> tuple[OfLogits, Accepted, Tensor]:
        """Draws and accepts.

        Args:
            logits: (C, V), scaled, of a step which has read ``canvas`` (C,).
            kept: (C,) bool, places that stay as they are.

        Returns:
            The predictions, what the rule accepts, and the next canvas (C,).
        """
        of_logits = OfLogits(logits, sampling.sample_candidates(logits, self.generator))
        accepted = self.rule(of_logits, canvas, kept)
        return of_logits, accepted, sampling.renoise(accepted.candidates, accepted.mask, self.noise())

    def skip_step(self) -> None:
        flat = torch.zeros((), device=self.generator.device).expand(self.length, self.vocab_size)
        sampling.sample_candidates(flat, self.generator)
        self.noise()

    def top(self, logits: Tensor) -> Top:
        """Returns the likeliest tokens of every position and their probabilities, (C, K) each; empty if not requested.

        Forbidden tokens are never among them. If fewer than K tokens are left, the likeliest one fills the other
        places, with a probability of 0.
        """
        if not self.config.top_k:
            return ()
        shares = torch.softmax(logits, dim=-1)
        if self.forbidden is not None:
            shares = shares.masked_fill(self.forbidden & (shares == 0), -1.0)  # a pinned token has 1, though forbidden
        best = shares.topk(min(self.config.top_k, self.vocab_size), dim=-1)
        ids = torch.where(best.values < 0, best.indices[:, :1], best.indices)
        return to_host(ids), best.values.clamp_min(0.0).float().cpu().numpy()


def to_host(tokens: Tensor) -> Tokens:
    return tokens.to("cpu", torch.int32).numpy()


def _made(
    config: GenerationConfig, length: int, vocab_size: int, generator: torch.Generator, pinned_block: int
) -> Sampler:
    device = generator.device
    pinned = None
    if config.pinned:
        check_cells("pinned", config.pinned, length, vocab_size)
        positions, ids = zip(*config.pinned, strict=True)
        pinned = (torch.tensor(positions, device=device), torch.tensor(ids, device=device))
    forbidden, instead = forbidden_of(config.banned_tokens, vocab_size, device), None
    if forbidden is not None:  # each banned token has a substitute; these are spread evenly over the tokens left
        banned, left = forbidden.nonzero()[:, 0], (~forbidden).nonzero()[:, 0]
        instead = torch.arange(vocab_size, device=device)
        instead[banned] = left[torch.arange(len(banned), device=device) * len(left) // len(banned)]
    stop = StableAndConfident(config.stability_threshold, config.confidence_threshold)
    return Sampler(config, length, vocab_size, generator, stop, pinned, forbidden, instead, pinned_block=pinned_block)


def forbidden_of(banned: Sequence[int], vocab_size: int, device: torch.device) -> Tensor | None:
    """Returns the mask (V,) of the tokens that may not be drawn; None if all may.

    Raises:
        SafelightError: a banned token is outside the vocabulary, or none is left.
    """
    if not banned:
        return None
    if max(banned) >= vocab_size:
        raise SafelightError(f"banned_tokens has token id {max(banned)}; the vocabulary has {vocab_size} tokens")
    forbidden = torch.zeros(vocab_size, dtype=torch.bool, device=device)
    forbidden[list(banned)] = True
    if bool(forbidden.all()):
        raise SafelightError("every token is banned; leave at least one")
    return forbidden


def check_cells(name: str, cells: Edits, length: int, vocab_size: int) -> None:
    """Checks positions and tokens.

    Raises:
        SafelightError: a position is outside the canvas, or a token outside the vocabulary.
    """
    for position, token in cells:
        if not 0 <= position < length:
            raise SafelightError(f"{name} position {position} is outside the canvas of {length} tokens")
        if not 0 <= token < vocab_size:
            raise SafelightError(f"{name} has token id {token}; the vocabulary has {vocab_size} tokens")


@dataclass(frozen=True)
class StableAndConfident:
    """Argmax unchanged over ``stability_threshold`` steps, and mean entropy (nats) below ``confidence_threshold``.

    It is called with the argmax canvases so far (oldest first, the current one last), each (..., C), and the entropy
    (..., C); it returns bools (...,) that are True for finished canvases.
    """

    stability_threshold: int
    confidence_threshold: float

    def __call__(self, argmax_history: Sequence[Tensor], entropy: Tensor) -> Tensor:
        confident = entropy.mean(dim=-1) < self.confidence_threshold
        if not self.stability_threshold:
            return confident
        earlier = argmax_history[:-1][-self.stability_threshold :]
        if len(earlier) < self.stability_threshold:
            return torch.zeros_like(confident)
        unchanged = [(canvas == argmax_history[-1]).all(dim=-1) for canvas in earlier]
        return confident & torch.stack(unchanged).all(dim=0)
