"""Keeps the step programs of a model's last runs, which mostly serve the next ones too."""

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

MOST = 4  # programs that are kept, as many as there are runs at once

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
        """What was made from the layers as they are now, by type; cleared when they change."""


class ProgramCache:
    """Holds one program a cache, the last ones asked for, and what each was made for.

    One a cache, as a cache has one run at a time: where that asks for other settings, the memory of the program before
    goes first. Those whose cache is gone go, too. A run keeps its own program, whatever is let go here.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[weakref.ref[KVCache], tuple[StepProgram, _Served]] = OrderedDict()

    @staticmethod
    def of_model(model: HasStepProgram) -> ProgramCache:
        """The model's own; gone, with the programs, where its layers have changed."""
        kept: ProgramCache = model.derived.setdefault(ProgramCache, ProgramCache())
        return kept

    def get(self, network: Network, cache: KVCache, sampler: Sampler) -> StepProgram:
        """The network's program on a cache, with a sampler's settings."""
        assert isinstance(network, DiffusionGemma), "other families have none"
        own, top_k = weakref.ref(self), sampler.config.top_k  # the callback must not keep this alive
        place = weakref.ref(cache, lambda gone: _forget(own(), gone))
        wanted = (sampler.length, choices_of(sampler), top_k)
        program, serves = self._kept.pop(place, (None, None))
        if program is None or serves != wanted:
            program = None  # its memory first
            while len(self._kept) >= MOST:
                self._kept.popitem(last=False)
            program = StepProgram(network, cache, sampler.length, self._forbidden(sampler), sampler.allowed, top_k)
        self._kept[place] = program, wanted
        return program

    def _forbidden(self, sampler: Sampler) -> Tensor | None:
        """What may not be sampled; the same tensor for all programs of the same choices, by which a pass knows them."""
        wanted = choices_of(sampler)
        other = next((program for program, (_, choices, _) in self._kept.values() if choices == wanted), None)
        return sampler.forbidden if other is None else other.forbidden


def _forget(programs: ProgramCache | None, gone: weakref.ref[KVCache]) -> None:
    if programs is not None:
        programs._kept.pop(gone, None)


def choices_of(sampler: Sampler) -> _Choices:
    """What decides on the tokens that may be sampled."""
    return sampler.config.allowed_tokens, sampler.config.banned_tokens
