"""CUDA graphs of joint steps, one a combination of programs; a few are kept.

A combination is captured the second time that it is asked for: what comes once is not worth the steps before a capture.
Nothing of this has run on a card yet. ``launch_together`` is told whether to use it, and is right without.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.decoding.step_program import CAPTURE_ERRORS, WARM_UP, StepProgram
from engine.models.diffusion_gemma.network import DiffusionGemma

MOST = 4  # graphs that are kept: what repeats is the one combination of all runs of the moment

_Key = tuple[weakref.ref[StepProgram], ...]
_Step = Callable[[], Tensor]


@dataclass(frozen=True)
class _Captured:
    """A graph, where the caches' buffers were, and what it leaves in its own memory."""

    graph: torch.cuda.CUDAGraph
    places: list[list[int]]
    hidden: Tensor


class JointGraphs:
    """Those of one network. They keep neither programs nor caches alive, and go with them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Captured | None] = OrderedDict()  # None: was asked for once
        self._has_room = True  # on the device, for one more

    @staticmethod
    def of_network(network: DiffusionGemma) -> JointGraphs:
        """The network's own."""
        return _OF_NETWORKS.setdefault(network, JointGraphs())

    def replayed(self, programs: Sequence[StepProgram], step: _Step) -> Tensor | None:
        """Take a step from a graph -> its hidden states, a copy; None: it is not captured, and nothing was done.

        Where there was once no room for a graph, no more are captured.

        Args:
            programs: that take part. step: the step itself, of the device alone.
        """
        self._forget_dead()
        key = tuple(weakref.ref(program) for program in programs)
        places = [program.places for program in programs]
        is_new = key not in self._kept
        found = self._kept.pop(key, None)
        if not is_new and (found is None or found.places != places):
            found = None  # its memory first
            if self._has_room:
                try:
                    found = self._captured(programs, step, places)
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

    def _captured(self, programs: Sequence[StepProgram], step: _Step, places: list[list[int]]) -> _Captured:
        """Steps to warm up and a capture, which leave the programs as they were."""
        pool = next((other.graph.pool() for other in self._kept.values() if other is not None), None)
        with ExitStack() as undone:
            for program in programs:
                undone.enter_context(program.undone())
            graph, hidden = capture(programs, step, pool)
        return _Captured(graph, places, hidden)


_OF_NETWORKS: weakref.WeakKeyDictionary[DiffusionGemma, JointGraphs] = weakref.WeakKeyDictionary()


def capture(programs: Sequence[StepProgram], step: _Step, pool: Any) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """A step as a graph, and the hidden states in its memory.

    pool: another graph's, whose memory it shares; None: its own.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    for program in programs:
        graph.register_generator_state(program.generator)
    with torch.cuda.graph(graph, pool=pool, capture_error_mode=CAPTURE_ERRORS):
        hidden = step()
    return graph, hidden
