"""Keeps the step programs of a model's last runs, which usually serve the next runs too."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from engine.decoding.sampler import Sampler
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.network import Network

MOST = 4  # programs in memory, as many as there are runs at once

_Choices = tuple[tuple[int, ...] | None, tuple[int, ...]]  # tokens allowed, None: all; tokens banned
_Served = tuple[int, _Choices, int]  # length of a canvas, choices, top k


@runtime_checkable
class HasStepProgram(Protocol):
    """A model that may run a step as a program on its device."""

    @property
    def network(self) -> Network: ...
    @property
    def has_step_program(self) -> bool: ...
    @property
    def derived(self) -> dict[type, Any]:
        """Objects made from the current layers, by type; cleared when the layers change."""


class ProgramCache:
    """Holds the latest programs, one for each cache, and the settings that each was made for.

    A cache has one run at a time. If the run has other settings than the cache's program, the program is freed before
    the new one is made. A program is dropped with its cache; the run that has it keeps it alive.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[weakref.ref[KVCache], tuple[StepProgram, _Served]] = OrderedDict()

    @staticmethod
    def of_model(model: HasStepProgram) -> ProgramCache:
        """Returns the model's program cache; it and its programs are dropped when the model's layers change."""
        kept: ProgramCache = model.derived.setdefault(ProgramCache, ProgramCache())
        return kept

    def get(self, network: Network, cache: KVCache, sampler: Sampler) -> StepProgram:
        """Returns the network's program for a cache and a sampler's settings."""
        assert isinstance(network, DiffusionGemma), "other families have none"
        own, top_k = weakref.ref(self), sampler.config.top_k  # the callback must not keep the programs alive
        place = weakref.ref(cache, lambda gone: _forget(own(), gone))
        wanted = (sampler.length, choices_of(sampler), top_k)
        program, serves = self._kept.pop(place, (None, None))
        if program is None or serves != wanted:
            program = None  # frees its memory first
            while len(self._kept) >= MOST:
                self._kept.popitem(last=False)
            program = StepProgram(network, cache, sampler.length, self._forbidden(sampler), sampler.allowed, top_k)
        self._kept[place] = program, wanted
        return program

    def _forbidden(self, sampler: Sampler) -> Tensor | None:
        """Returns the mask of forbidden tokens (V,): one tensor for all programs of the same choices."""
        wanted = choices_of(sampler)
        other = next((program for program, (_, choices, _) in self._kept.values() if choices == wanted), None)
        return sampler.forbidden if other is None else other.forbidden


def _forget(programs: ProgramCache | None, gone: weakref.ref[KVCache]) -> None:
    if programs is not None:
        programs._kept.pop(gone, None)


def choices_of(sampler: Sampler) -> _Choices:
    """Returns the settings that decide which tokens may be sampled."""
    return sampler.config.allowed_tokens, sampler.config.banned_tokens
