"""Keeps the step program of a model's last run, which mostly serves the next one too."""

from __future__ import annotations

import weakref
from typing import Any, Protocol, runtime_checkable

from engine.decoding.sampler import Sampler
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma


@runtime_checkable
class HasStepProgram(Protocol):
    """A model that may run a step as a program on its device."""

    @property
    def network(self) -> DiffusionGemma: ...
    @property
    def has_step_program(self) -> bool: ...
    @property
    def derived(self) -> dict[type, Any]:
        """What was made from the layers as they are now, by type; cleared when they change."""


class ProgramCache:
    """Holds one program, and what it was made for."""

    def __init__(self) -> None:
        self._program: StepProgram | None = None
        self._serves: tuple[object, ...] = ()

    @staticmethod
    def of(model: HasStepProgram) -> ProgramCache:
        """The model's own; gone, with the program, where its layers have changed."""
        kept: ProgramCache = model.derived.setdefault(ProgramCache, ProgramCache())
        return kept

    def get(self, network: DiffusionGemma, cache: KVCache, sampler: Sampler) -> StepProgram:
        """The network's program on a cache, with a sampler's settings."""
        config = sampler.config
        wanted = (weakref.ref(cache), sampler.length, *choices_of(sampler), config.top_k)
        if self._program is None or self._serves != wanted:
            self._program = None  # its memory first
            self._program = StepProgram(
                network, cache, sampler.length, sampler.forbidden, sampler.allowed, config.top_k
            )
            self._serves = wanted
        return self._program


def choices_of(sampler: Sampler) -> tuple[object, ...]:
    """What decides on the tokens that may be sampled."""
    return sampler.config.allowed_tokens, sampler.config.banned_tokens
