"""The steps of several runs in one pass of the step program, so that weights are read once for all of them.

The rows of all runs lie one after the other: first the text of those that commit a canvas, then all canvases.
Embedding, linear layers, experts, norms and head take them together. Attention, and writing of keys and values, goes
run by run, each on its own cache, in the same calls as for a run alone. The table is read once for all runs that choose
among the same tokens, with the temperature and the draw of each row's own run. Each run accepts, re-noises and judges
by itself. The facts of a step arrive where its program puts them alone.

A run's results depend on the other runs by rounding alone: a product of more rows may add up in another order. In fp32
entropies are within 2e-5 nats of those alone, after a step from the same state. In bf16 they are within 0.05 nats with
the same argmax, as tests hold for random small models in int4 and nf4 (there, most are the same to the bit). A draw
between two nearly tied tokens may fall to the other one; from there on the run is another sample of the same model. A
number that is not finite stays in its run.

Floor of 4 runs of the 26B in int4, 256 tokens each: 15 GB of weights are read once, not four times, and 11.5 TFLOP are
computed, as by four apart. Memory and arithmetic take an H100 5 and 12 ms, an RTX 4090 15 and 69, an RTX 5090 8 and 54.
A canvas has so many rows that on consumer cards arithmetic is the limit for one run already; a joint step only saves
the overhead of single steps there. Predicted, not measured, +- 30 %, ms a pass of 1, 2, 4 runs, and tokens a second of
all runs at 16 steps: H100 10.4, 17, 32 and 1540, 1840, 2000; RTX 4090 28, 47, 91 and 570, 680, 710; RTX 5090 20, 36, 74
and 800, 900, 860. A pass is 439, 622 and 902 launches: without a graph the host takes longer to launch it than an H100
to run it. No card has run any of this yet.

Joint steps may be captured as CUDA graphs, one for each combination of programs, of which a few are kept. A combination
is captured when it is requested for the second time: one that comes once is not worth the steps before a capture. No
card has run this yet. ``launch_together`` decides if graphs are used; results are the same without them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import kernels
from engine.decoding.protocols import LaunchStep
from engine.decoding.step_program import StepProgram, capture, find_likeliest
from engine.kernels.reference_step import VocabularyResult
from engine.layers.attention import Extend
from engine.layers.joint_rows import JointRows, JointSpan
from engine.models.diffusion_gemma.network import DiffusionGemma

MAX_GRAPHS = 4  # in memory: usually only the combination of all current runs repeats

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
        graph = self._kept.pop(key, None)
        if not is_new and (graph is None or graph.known != known):
            graph = None  # frees its memory first
            if self._has_room:
                try:
                    graph = self._captured(programs, step, known)
                except torch.OutOfMemoryError:
                    self._has_room = False
        self._kept[key] = graph
        while len(self._kept) > MAX_GRAPHS:
            self._kept.popitem(last=False)
        if graph is None:
            return None
        graph.graph.replay()
        return graph.hidden.clone()  # other graphs share the memory

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


def launch_together(launches: Sequence[LaunchStep], captures: bool = True) -> None:
    """Starts the steps of several runs as one pass; each program's facts are collected from it, as of a step alone.

    A single step is ``StepProgram.launch``. A failure in the layers or at the table, where memory is taken, leaves all
    programs as they were, so that each step may be launched again by itself.

    Args:
        launches: of different programs of one network.
        captures: repeated passes may be replayed from graphs, on CUDA.

    Raises:
        ValueError: the programs are of several networks, or one comes twice.
    """
    if len(launches) == 1:
        launches[0].program.launch(launches[0].index)
    if len(launches) < 2:
        return
    programs = [launch.program for launch in launches]
    step = JointStep(programs, [launch.program.commits_at(launch.index) for launch in launches])
    graphs = JointGraphs.of_network(step.network) if captures else None
    hidden = graphs.replayed(programs, step.run) if graphs is not None and step.repeats else None
    if hidden is None:
        hidden = step.run()
    for program, own in zip(programs, step.of_each(hidden), strict=True):
        program.hidden = own
    for launch in launches:
        launch.program.send(launch.index)


class JointStep:
    """One step of each of several programs.

    Args:
        programs: of one network, each on its own cache.
        commits: for each, whether its step commits the canvas before.
    """

    def __init__(self, programs: Sequence[StepProgram], commits: Sequence[bool]) -> None:
        if len(set(map(id, programs))) < len(programs) or len({id(program.network) for program in programs}) > 1:
            raise ValueError("a joint step takes one step each of different programs of one network")
        self.programs, self.network = tuple(programs), programs[0].network
        lengths = tuple(program.length for program in programs)
        self.rows = JointRows(
            tuple(length * does for length, does in zip(lengths, commits, strict=True)),
            lengths,
        )

    @property
    def repeats(self) -> bool:
        """True if the same pass is likely to come again, so that it may be captured."""
        return not self.rows.text_rows and all(program.captures for program in self.programs)

    def of_each(self, canvases: Tensor) -> tuple[Tensor, ...]:
        """Splits the rows of all canvases into those of each run."""
        return torch.split(canvases, [*self.rows.canvases])

    # --- what the device does ----------------------------------------------------------------------------------------

    def run(self) -> Tensor:
        """Runs the whole step; returns the hidden states (C, H) of all canvases that it predicted from."""
        hidden = self.layers()
        results = self.vocabulary(hidden)
        ranked = [place for place, program in enumerate(self.programs) if program.top_ids.numel()]
        if ranked:
            find_likeliest(
                [self.programs[place] for place in ranked],
                torch.cat([self.of_each(hidden)[place] for place in ranked]),
                [results[place].logsumexp for place in ranked],
            )
        for program, own in zip(self.programs, results, strict=True):
            program.settle(own)
        return hidden

    def layers(self) -> Tensor:
        """Runs all rows through all layers; returns hidden states (C, H) of all canvases."""
        programs, rows = self.programs, self.rows
        ids = rows.together(
            [program.ids[program.length - text :] for program, text in zip(programs, rows.texts, strict=True)]
        )
        soft = torch.cat([program.soft for program in programs])
        hidden = self._fused(ids, soft) if programs[0].fused is not None else self._plain(ids, soft)
        return hidden[rows.text_rows :]

    def _fused(self, ids: Tensor, soft: Tensor) -> Tensor:
        from engine.models.diffusion_gemma.fused import RunInPass  # needs Triton

        rows, fused = self.rows, self.programs[0].fused
        assert fused is not None
        runs = [
            RunInPass(fused.ropes(program.start, -text, text + program.length), program.spans_with(text), program.cache)
            for program, text in zip(self.programs, rows.texts, strict=True)
        ]
        return fused.together(fused.embed(ids, soft, rows.text_rows), runs, rows)

    def _plain(self, ids: Tensor, soft: Tensor) -> Tensor:
        network, programs, rows = self.network, self.programs, self.rows
        embedded = network.embed(ids)[None]
        x = network.self_conditioning(embedded[:, rows.text_rows :], soft[None])
        if rows.text_rows:
            x = torch.cat([embedded[:, : rows.text_rows], x], dim=1)
        offsets = [program.offsets[program.length - text :] for program, text in zip(programs, rows.texts, strict=True)]
        positions = [program.start + own for program, own in zip(programs, offsets, strict=True)]
        ropes = network.ropes(rows.together(positions), x.dtype)
        spans = [program.spans_with(text) for program, text in zip(programs, rows.texts, strict=True)]
        for index, (block, layer) in enumerate(zip(network.layers, network.config.layers, strict=True)):
            writers = [program.writer(index, own) for program, own in zip(programs, offsets, strict=True)]

            def extend(keys: Tensor, values: Tensor, writers: list[Extend] = writers) -> tuple[Tensor, Tensor]:
                for write, *own in zip(writers, rows.apart(keys, 2), rows.apart(values, 2), strict=True):
                    write(*own)
                return keys, values

            buffers = [program.cache.buffers(index) for program in programs]
            span = JointSpan(rows, [each[layer.kind] for each in spans], buffers)
            x = block(x, ropes[layer], span, extend, rows.text_rows)
        hidden: Tensor = network.norm(x)
        return hidden[0]

    def vocabulary(self, hidden: Tensor) -> list[VocabularyResult]:
        """Returns each run's results, from hidden states (C, H) of all canvases.

        Runs that choose among the same tokens go through the table together. Others go by themselves: with a mask for
        each row every tile of the table would read the masks, which few runs need.
        """
        results: dict[int, VocabularyResult] = {}
        states = self.of_each(hidden)
        for places in self._groups():
            programs = [self.programs[place] for place in places]
            if len(programs) == 1:
                results[places[0]] = programs[0].vocabulary(states[places[0]])
                continue
            own = hidden if len(places) == len(states) else torch.cat([states[place] for place in places])
            stage = _stage(programs, own)
            results.update(zip(places, _apart(stage, [program.length for program in programs]), strict=True))
        return [results[place] for place in range(len(states))]

    def _groups(self) -> list[list[int]]:
        """Returns the places of the programs that may go through the table together."""
        groups: dict[int | None, list[int]] = {}
        for place, program in enumerate(self.programs):
            chooses = None if program.forbidden is None else id(program.forbidden)
            groups.setdefault(chooses, []).append(place)
        return list(groups.values())


def _stage(programs: Sequence[StepProgram], hidden: Tensor) -> VocabularyResult:
    """Runs the vocabulary stage of all rows (C, H), each with the temperature, the draw and the pin of its own run."""
    first, config = programs[0], programs[0].network.config
    draws = [
        torch.cat([program.draw.expand(program.length, 2), program.offsets[program.length :, None]], dim=1)
        for program in programs
    ]
    return kernels.vocabulary_stage(
        hidden,
        first.network.embed_tokens.table,
        temperature=torch.cat([program.temperature(program.step).expand(program.length) for program in programs]),
        draw=torch.cat(draws),
        cap=config.final_logit_softcapping,
        embed_scale=first.network.embed_scale,
        forbidden=first.forbidden,
        pinned=torch.cat([program.pinned for program in programs]),
    )


def _apart(joint: VocabularyResult, lengths: list[int]) -> list[VocabularyResult]:
    """Splits the results by run; only a run's own rows can make it not finite."""
    parts = (joint.argmax, joint.candidate, joint.entropy, joint.probability, joint.logsumexp, joint.soft)
    nonfinite = [(~own.isfinite()).any().to(torch.int32)[None] for own in torch.split(joint.logsumexp, lengths)]
    return [
        VocabularyResult(*own) for own in zip(*(torch.split(part, lengths) for part in parts), nonfinite, strict=True)
    ]
