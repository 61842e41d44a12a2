"""Captures joint steps as CUDA graphs, one for each combination of programs, and keeps a few of them.

A combination is captured when it is requested for the second time: one that comes once is not worth the steps before a
capture. No card has run this yet. ``launch_together`` decides if graphs are used; results are the same without them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.decoding.step_program import StepProgram, capture
from engine.models.diffusion_gemma.network import DiffusionGemma

MOST = 4  # graphs in memory: usually only the combination of all current runs repeats

_Key = tuple[weakref.ref[StepProgram], ...]
_Step = Callable[[], Tensor]


@dataclass(frozen=True)
class _Captured:
    """A graph, what its programs knew at its capture, and the hidden states in its memory."""

    graph: torch.cuda.CUDAGraph
    known: list[list[int]]
    hidden: Tensor


class JointGraphs:
    """The graphs of one network. They do not keep programs or caches alive, and are dropped with them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Captured | None] = OrderedDict()  # None: was requested once
        self._has_room = True  # on the device, for one more graph

    @staticmethod
    def of_network(network: DiffusionGemma) -> JointGraphs:
        return _OF_NETWORKS.setdefault(network, JointGraphs())

    def replayed(self, programs: Sequence[StepProgram], step: _Step) -> Tensor | None:
        """Replays a step from its graph and returns a copy of its hidden states; None if it is not captured.

        After one capture ran out of memory no more graphs are captured.

        Args:
            programs: that take part.
            step: the step itself; it must run on the device alone.
        """
        self._forget_dead()
        key = tuple(weakref.ref(program) for program in programs)
        known = [program.known for program in programs]
        is_new = key not in self._kept
        found = self._kept.pop(key, None)
        if not is_new and (found is None or found.known != known):
            found = None  # frees its memory first
            if self._has_room:
                try:
                    found = self._captured(programs, step, known)
                except torch.OutOfMemoryError:
                    self._has_room = False
        self._kept[key] = found
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        if found is None:
            return None
        found.graph.replay()
        return found.hidden.clone()  # other graphs share the memory

    def _forget_dead(self) -> None:
        for key in [key for key in self._kept if any(program() is None for program in key)]:
            del self._kept[key]

    def _captured(self, programs: Sequence[StepProgram], step: _Step, known: list[list[int]]) -> _Captured:
        """Warms up and captures a step, and leaves the programs as they were."""
        pool = next((other.graph.pool() for other in self._kept.values() if other is not None), None)
        with ExitStack() as undone:
            for program in programs:
                undone.enter_context(program.undone())
            graph, hidden = capture(programs, step, pool)
        return _Captured(graph, known, hidden)


_OF_NETWORKS: weakref.WeakKeyDictionary[DiffusionGemma, JointGraphs] = weakref.WeakKeyDictionary()
