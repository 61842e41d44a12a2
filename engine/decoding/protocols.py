"""The model interface that decoders use, and the passes that they yield.

A decoder does not run the model. It yields *passes*, one forward each, and reads the result from the pass. Between
passes it yields the events of its run. ``performing`` performs the passes of one run one by one, or passes
of several runs at once.
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


class BlockDenoiser(Protocol):
    """A model that reads text and predicts a whole canvas at once: ``models.network.Network``, ``DiffusionGemma``."""

    @property
    def config(self) -> ModelConfig: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def dtype(self) -> torch.dtype: ...
    def new_cache(self) -> KVCache: ...
    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor: ...
    def decode(
        self,
        ids: Tensor,
        cache: KVCache,
        commit: int,
        first_logits: int = 0,
        positions: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor: ...
    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Tensor | None = None) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Prefill:
    """Appends token ids (T,) to a cache, as ``models.network.Network.prefill``; has no result."""

    ids: Tensor
    cache: KVCache


@dataclass(eq=False)
class Denoise:
    """Predicts a canvas (C,) behind a cache's text, to which some may be appended first; the result is logits (C, V).

    Logits are the largest tensors of a run. A generator that is sent a value keeps it until the next one is sent. Here
    logits are stored and taken, so that they are freed as soon as possible.
    """

    canvas: Tensor
    cache: KVCache
    self_conditioning_logits: Tensor | None
    text: Tensor | None = None  # token ids (T,) that are appended to the cache before, causally
    logits: Tensor | None = None  # result

    def take(self) -> Tensor:
        """Returns the logits; the pass drops them and its self-conditioning logits."""
        logits, self.logits, self.self_conditioning_logits = self.logits, None, None
        assert logits is not None, "the pass was not performed"
        return logits


@dataclass(eq=False)
class Decode:
    """Reads token ids (T,) behind a cache's text and predicts; the first ``commit`` rows become part of that text.

    The result is logits (T - first_logits, V). The arguments are those of ``models.network.Network.decode``.
    """

    ids: Tensor
    cache: KVCache
    commit: int
    first_logits: int = 0
    positions: Tensor | None = None
    is_causal: bool = True
    draft: DraftAdapter | None = None  # is on in this pass alone
    logits: Tensor | None = None  # result

    def take(self) -> Tensor:
        """Returns the logits, and drops them here."""
        logits, self.logits = self.logits, None
        assert logits is not None, "the pass was not performed"
        return logits


@dataclass(eq=False)
class ReadImages:
    """Runs one layer of the vision tower on an image of a prompt; the last result is the prompt with all of its images.

    A joint pass that fails is performed again for each run alone, but a generator that has raised cannot go on. So its
    exception is stored for the run.

    Args:
        reading: the generator of ``Model.seeing``, the same for each of the passes.
    """

    reading: Generator[None, None, Sequence[int]]
    prompt: Sequence[int] | None = None  # result of the last pass
    failure: Exception | None = None


@dataclass(frozen=True, eq=False)
class LaunchStep:
    """Launches a whole step as a program of the device; has no result, its facts are collected from the program."""

    program: StepProgram
    index: int  # of the step in its canvas


Pass: TypeAlias = ReadImages | Prefill | Denoise | Decode | LaunchStep
Passes: TypeAlias = Generator[Pass, None, T]
"""Yields passes, and returns a ``T``."""

Decoding: TypeAlias = Generator[Event | Pass, None, T]
"""Yields passes and events, and returns a ``T``."""
