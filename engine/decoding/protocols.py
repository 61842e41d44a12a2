"""What a way of decoding is, what it needs of a model, and the passes that it asks for.

A decoder does not run the model. It yields *passes*, one forward each, and finds in each what it came to; between them
it yields the events of its run. ``generate`` performs the passes of one run as they come; passes of several runs can be
performed together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor

from engine.adapters.draft import DraftAdapter
from engine.config import ModelConfig
from engine.decoding.step_program import StepProgram
from engine.events import Event
from engine.layers.kv_cache import KVCache

T = TypeVar("T")


class CausalModel(Protocol):
    """A model that reads text."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...
    def new_cache(self) -> KVCache: ...
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        """Ids (T,) -> hidden states (T, H), causally unless the cache is one of blocks; appends to it."""

    def decode(
        self,
        ids: Tensor,
        cache: KVCache,
        commit: int,
        first_logits: int = 0,
        positions: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        """Ids (T,) behind the cache's text -> logits (T - first_logits, V) fp32; see ``models.network.Network``."""


class BlockDenoiser(CausalModel, Protocol):
    """A model that also predicts all of a canvas at once."""

    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Tensor | None = None) -> Tensor:
        """Bidirectional: canvas (C,), logits of the step before (C, V) or None -> (C, V) fp32; the cache stays."""

    def log_probabilities(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """Hidden states (T, H) of ``prefill`` and the token ids (T,) behind each -> log-probabilities (T,) fp32."""


@dataclass(frozen=True, eq=False)
class Prefill:
    """Append token ids (T,) to a cache, as ``models.network.Network.prefill``; comes to nothing."""

    ids: Tensor
    cache: KVCache


@dataclass(eq=False)
class ScoreTokens:
    """Append token ids (T,) to a cache, causally, and tell how likely each is behind the text before it."""

    ids: Tensor
    cache: KVCache
    before: Tensor | None = None  # hidden state (H,) of the token before them; None: not known
    first: int = 0  # how many of them are not asked about, from the first
    log_probabilities: Tensor | None = None  # (T - first,) fp32, NaN where not known; put here by whoever performs
    last: Tensor | None = None  # hidden state (H,) of the last of them; likewise


@dataclass(eq=False)
class Denoise:
    """Predict a canvas (C,) behind a cache's text; comes to logits (C, V). Before that the text may be appended to.

    Logits are the largest tensors of a run. A generator that is sent one keeps it until it is sent the next; here they
    are put down and taken, so that none is held longer than it is needed.
    """

    canvas: Tensor
    cache: KVCache
    self_conditioning_logits: Tensor | None
    text: Tensor | None = None  # token ids (T,) that are appended to the cache first, causally
    logits: Tensor | None = None  # put here by whoever performs the pass

    def take(self) -> Tensor:
        """The logits; the pass lets go of them, and of those that it was made with."""
        found, self.logits, self.self_conditioning_logits = self.logits, None, None
        assert found is not None, "the pass was not performed"
        return found


@dataclass(eq=False)
class Decode:
    """Read token ids (T,) behind a cache's text and predict; the first ``commit`` rows become part of that text.

    Comes to logits (T - first_logits, V). The arguments are those of ``models.network.Network.decode``.
    """

    ids: Tensor
    cache: KVCache
    commit: int
    first_logits: int = 0
    positions: Tensor | None = None
    is_causal: bool = True
    draft: DraftAdapter | None = None  # that is on in this pass alone
    logits: Tensor | None = None  # put here by whoever performs the pass

    def take(self) -> Tensor:
        """The logits, of which the pass lets go."""
        found, self.logits = self.logits, None
        assert found is not None, "the pass was not performed"
        return found


@dataclass(eq=False)
class ReadImages:
    """A layer of the vision tower, on an image of a prompt; the last one comes to the prompt with all of its images.

    A pass that fails beside others is performed again, but a generator that raised has ended: so what it raised is kept
    for the run.

    reading: ``Model.seeing``'s, the same in each of the passes.
    """

    reading: Generator[None, None, Sequence[int]]
    prompt: Sequence[int] | None = None  # put here by whoever performs the last
    failure: Exception | None = None


@dataclass(frozen=True, eq=False)
class LaunchStep:
    """Launch a whole step as a program of the device; comes to nothing, its facts are collected from the program."""

    program: StepProgram
    index: int  # of the step in its canvas


Pass: TypeAlias = ReadImages | Prefill | ScoreTokens | Denoise | Decode | LaunchStep
Passes: TypeAlias = Generator[Pass, None, T]
"""Asks for passes, and comes to a ``T``."""

Decoding: TypeAlias = Generator[Event | Pass, None, T]
"""Asks for passes and tells events on its way."""
