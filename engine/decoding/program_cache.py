"""Keeps the step programs of a model's last runs, one for each length of canvas; they usually serve the next runs."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from engine.decoding.sampler import Sampler
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache
from engine.memory.footprint import PROGRAM_CANVASES
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.network import Network

MOST = 4  # caches that have programs, as many as there are runs at once
MOST_LENGTHS = 5  # programs of a cache: those of canvases of 16, 32, 64, 128 and 256

_Place = tuple[weakref.ref[KVCache], int]  # the cache, and the length of a canvas
_Served = tuple[tuple[int, ...], int]  # banned tokens, top k


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
    """Holds the latest programs, one for each cache and length of canvas, and the settings that each was made for.

    A cache has one run at a time. If the run has other settings than the program of its length, the program is freed
    before the new one is made, as are those that would be too many. The programs of a cache have at most the rows of
    ``PROGRAM_CANVASES`` canvases, which the memory plan counts. A program is dropped with its cache; the run that has
    it keeps it alive.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[_Place, tuple[StepProgram, _Served]] = OrderedDict()  # the latest at the end

    @staticmethod
    def of_model(model: HasStepProgram) -> ProgramCache:
        """Returns the model's program cache; it and its programs are dropped when the model's layers change."""
        kept: ProgramCache = model.derived.setdefault(ProgramCache, ProgramCache())
        return kept

    def get(self, network: Network, cache: KVCache, sampler: Sampler) -> StepProgram:
        """Returns the network's program for a cache and a sampler's settings."""
        assert isinstance(network, DiffusionGemma), "other families have none"
        own, top_k = weakref.ref(self), sampler.config.top_k  # the callback must not keep the programs alive
        place = weakref.ref(cache, lambda gone: _forget(own(), gone)), sampler.length
        wanted = (sampler.config.banned_tokens, top_k)
        program, serves = self._kept.pop(place, (None, None))
        if program is None or serves != wanted:
            program = None  # frees its memory first
            self._make_room(place, PROGRAM_CANVASES * network.config.canvas_length)
            program = StepProgram(network, cache, sampler.length, self._forbidden(sampler), sampler.instead, top_k)
        self._kept[place] = program, wanted
        return program

    def _make_room(self, place: _Place, most: int) -> None:
        """Drops the programs that there is no room for next to a new one, of whose cache ``most`` rows may have one."""
        cache, rows = place
        own = [one for one in self._kept if one[0] == cache]
        while own and (len(own) >= MOST_LENGTHS or rows + sum(length for _, length in own) > most):
            del self._kept[own.pop(0)]
        latest = [*dict.fromkeys(one[0] for one in reversed(self._kept) if one[0] != cache)]
        for one in [one for one in self._kept if one[0] in latest[MOST - 1 :]]:
            del self._kept[one]

    def _forbidden(self, sampler: Sampler) -> Tensor | None:
        """Returns the mask of forbidden tokens (V,): one tensor for all programs that ban the same."""
        wanted = sampler.config.banned_tokens
        other = next((program for program, (banned, _) in self._kept.values() if banned == wanted), None)
        return sampler.forbidden if other is None else other.forbidden


def _forget(programs: ProgramCache | None, gone: weakref.ref[KVCache]) -> None:
    if programs is not None:
        for place in [place for place in programs._kept if place[0] is gone]:
            del programs._kept[place]
