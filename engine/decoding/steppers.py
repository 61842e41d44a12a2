"""Takes denoising steps, in plain torch or as a program on the device, and defines what a stepper does.

The plain stepper makes the sampler's draws. It is the oracle, and golden tests compare it to the reference. The device
stepper takes the same steps, as a program on the device, with its own draws. The step programs of a model's last runs
are kept, one for each length of canvas; they usually serve the next runs.

Settings can change between two steps, and draws can be skipped, so that a run can go on from the middle of another.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding import sampling
from engine.decoding.prefill import commit
from engine.decoding.protocols import Denoise, LaunchStep, Passes
from engine.decoding.run import Run
from engine.decoding.sampler import Edits, Sampler, Top, non_finite, to_host
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache
from engine.memory.footprint import PROGRAM_CANVASES
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.network import Network
from engine.types import Tokens


@dataclass(frozen=True)
class Step:
    """The results of one step, on the host. C positions."""

    argmax: Tokens
    candidates: Tokens
    entropy: NDArray[np.float32]
    accepted: NDArray[np.bool_]
    next_canvas: Tokens
    converged: bool
    top: Top  # (C, K) likeliest tokens and their probabilities, if requested


class PlainStepper:
    """Takes the steps of one canvas after another."""

    commits_with_step = False  # True: a finished canvas is read in the pass of the next one's first step

    def __init__(self, dtype: torch.dtype, cache: KVCache, sampler: Sampler) -> None:
        self.dtype, self.cache, self.sampler = dtype, cache, sampler  # the model's number type
        self.conditioning: Tensor | None = None  # logits (C, V) that are fed back
        self.kept = torch.zeros(0, dtype=torch.bool)  # (C,) places that stay as they are

    def commit(self, ids: Tensor) -> Passes[None]:
        """Makes a finished canvas (C,) part of the cache's text, at the latest when the next canvas begins."""
        return commit(ids, self.cache)

    def begin(self, block: int, canvas: Tensor) -> Passes[None]:
        """Starts a fresh canvas (C,) behind the cache's text."""
        yield from ()  # no pass before the first step
        self.block, self.canvas, self.conditioning = block, canvas, None
        self.kept = self._pinned()
        self.history: list[Tensor] = []

    def step(self, index: int, ahead: bool = True) -> Passes[Step]:  # noqa: ARG002
        """Takes step ``index`` of the canvas, 0 upward.

        Args:
            ahead: the next step may begin before this one's facts are read; False if something changes between the two.

        Raises:
            SafelightError: the model gave non-finite logits.
        """
        sampler = self.sampler
        wanted = Denoise(self.canvas, self.cache, self.conditioning)
        yield wanted
        logits = sampler.scale(wanted.take(), sampler.config.temperature(index), self.block, index)
        of_logits, accepted, self.canvas = sampler.step(logits, self.canvas, self.kept)
        self.kept = accepted.mask if sampler.rule.keeps else self._pinned()
        self.history.append(of_logits.argmax)  # all of it: a change may ask for more stable steps than before
        self.conditioning = logits.to(self.dtype)  # as the reference does: in bf16 it is fed back rounded
        return Step(
            to_host(of_logits.argmax),
            to_host(accepted.candidates),
            of_logits.entropy.float().cpu().numpy(),
            accepted.mask.cpu().numpy(),
            to_host(self.canvas),
            bool(accepted.is_finished) or bool(sampler.stop(self.history, of_logits.entropy)),
            sampler.top(logits),
        )

    def predict(self, canvas: Tensor, position: int) -> Passes[Tensor]:
        """Returns logits (V,) of one position of any canvas (C,), between a canvas's last step and the next ``begin``.

        Nothing is fed back; pins, bans and temperature are not applied, and no random number is drawn.
        """
        wanted = Denoise(canvas, self.cache, None)
        yield wanted
        return wanted.take()[position].clone()

    def seed(self, seed: int) -> None:
        """Starts another random stream."""
        self.sampler.generator.manual_seed(seed)

    def skip_step(self) -> None:
        self.sampler.skip_step()

    def adopt(self, sampler: Sampler) -> None:
        """Changes the settings between two canvases."""
        self.sampler = sampler

    def change(self, sampler: Sampler, edits: Edits) -> None:
        """Changes the settings between two steps, and amends the canvas to them."""
        free = ~self._pinned()
        self.sampler = sampler
        before, self.canvas = self.canvas, sampler.amended(self.canvas, self.block, edits)
        self.kept = (self.kept & free & (before == self.canvas)) | self._pinned()

    def _pinned(self) -> Tensor:
        """Returns a mask (C,) of the pinned places, which are kept from the first step on."""
        return torch.from_numpy(self.sampler.pinned_mask(self.block)).to(self.canvas.device)


MAX_CACHES = 4  # caches that have programs, as many as there are runs at once
MAX_LENGTHS = 5  # programs of a cache: those of canvases of 16, 32, 64, 128 and 256

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
            forbidden = self._forbidden(sampler)
            program = StepProgram(network, cache, sampler.length, forbidden, sampler.instead, top_k)
        self._kept[place] = program, wanted
        return program

    def _make_room(self, place: _Place, most: int) -> None:
        """Drops the programs that there is no room for next to a new one, of whose cache ``most`` rows may have one."""
        cache, rows = place
        own = [one for one in self._kept if one[0] == cache]
        while own and (len(own) >= MAX_LENGTHS or rows + sum(length for _, length in own) > most):
            del self._kept[own.pop(0)]
        latest = [*dict.fromkeys(one[0] for one in reversed(self._kept) if one[0] != cache)]
        for one in [one for one in self._kept if one[0] in latest[MAX_CACHES - 1 :]]:
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


class DeviceStepper:
    """Takes the steps of a ``StepProgram``; on a GPU the next step runs while the event of this one is handled.

    The methods do what those of ``PlainStepper`` do. A finished canvas is committed by the first step of the next.
    """

    commits_with_step = True

    def __init__(self, model: HasStepProgram, cache: KVCache, sampler: Sampler) -> None:
        self.model, self.cache, self.sampler = model, cache, sampler
        self.program = ProgramCache.of_model(model).get(model.network, cache, sampler)
        self.finished: Tensor | None = None
        self.launched = False  # the next step is running
        self.program.seed(sampler.generator.initial_seed())

    def commit(self, ids: Tensor) -> Passes[None]:
        yield from self._read_finished()
        self.finished = ids

    def begin(self, block: int, canvas: Tensor) -> Passes[None]:
        self.block, program = block, self.program
        if self.finished is not None and len(self.finished) != program.length:
            yield from self._read_finished()
        program.begin(canvas, self.sampler.pinned_ids(block), self.sampler.config, self.finished)
        yield from self._launch(0)
        self._advance()

    def step(self, index: int, ahead: bool = True) -> Passes[Step]:
        if not self.launched:
            yield from self._launch(index)
        facts = self.program.collect(index)
        self.launched = False
        if not facts.finite:
            raise non_finite(self.block, index)
        if (
            ahead
            and self.program.runs_aside
            and not facts.converged
            and index + 1 < self.sampler.config.max_denoising_steps
        ):
            yield from self._launch(index + 1)
        return Step(
            to_host(facts.argmax),
            to_host(facts.candidates),
            facts.entropy.numpy().copy(),
            facts.accepted.numpy(),
            to_host(facts.next_canvas),
            facts.converged,
            () if facts.top is None else (to_host(facts.top[0]), facts.top[1].numpy().copy()),
        )

    @property
    def canvas(self) -> Tensor:
        return self.program.canvas

    def predict(self, canvas: Tensor, position: int) -> Passes[Tensor]:
        program = self.program
        with program.undone():
            program.begin(canvas, None, self.sampler.config)
            yield LaunchStep(program, 0)
            return program.logits(position)

    def seed(self, seed: int) -> None:
        self.sampler.generator.manual_seed(seed)
        self.program.seed(seed)

    def skip_step(self) -> None:
        program = self.program
        sampling.uniform_tokens((program.length,), program.choices, program.generator)
        program.draw[1] += 1

    def adopt(self, sampler: Sampler) -> None:
        """Replaces the program if other tokens may be sampled or the canvas has another length.

        The random streams go on.
        """
        if (sampler.config.banned_tokens, sampler.length) != (self.sampler.config.banned_tokens, self.sampler.length):
            drawn, draw = self.program.generator.get_state(), self.program.draw.clone()
            del self.program  # frees its memory first
            program = ProgramCache.of_model(self.model).get(self.model.network, self.cache, sampler)
            program.generator.set_state(drawn)
            program.draw.copy_(draw)
            self.program = program
        self.sampler = sampler

    def change(self, sampler: Sampler, edits: Edits) -> None:
        """Restarts the canvas as it is, with the state that its earlier steps have left.

        Places that were edited or pinned are not kept any more, unless they are pinned again.
        """
        canvas = sampler.amended(self.program.canvas, self.block, edits)
        held = self.program.kept & (self.program.pinned < 0) & (self.program.canvas == canvas)
        left = [part.clone() for part in _left_by_steps(self.program)]
        self.adopt(sampler)
        self.program.begin(canvas, sampler.pinned_ids(self.block), sampler.config)
        for part, kept in zip(_left_by_steps(self.program), left, strict=True):
            part.copy_(kept)
        self.program.kept |= held

    def _read_finished(self) -> Passes[None]:
        """Reads the finished canvas, if there is one, alone."""
        finished, program = self.finished, self.program
        if finished is not None and len(finished) == program.length:  # no canvas follows it, and any will do
            with program.undone():
                program.begin(finished, None, self.sampler.config, finished)
                yield LaunchStep(program, 0)
            self._advance()
        elif finished is not None:
            yield from commit(finished, self.cache)
            self.finished = None

    def _advance(self) -> None:
        """Counts the canvas that was to be committed as text."""
        if self.finished is not None:
            self.cache.advance(len(self.finished))
            self.cache.record_ids(self.finished.tolist())
            self.finished = None

    def _launch(self, index: int) -> Passes[None]:
        yield LaunchStep(self.program, index)
        self.launched = True


Stepper: TypeAlias = DeviceStepper | PlainStepper


def stepper_for(run: Run) -> Stepper:
    """Returns a stepper of the model's step program if it has one, else of plain torch; the program makes no cuts."""
    model = run.model
    sampler = Sampler.from_settings(model.config, run.config, model.device, run.seed)
    if isinstance(model, HasStepProgram) and model.has_step_program and not run.config.cuts:
        return DeviceStepper(model, run.cache, sampler)
    return PlainStepper(model.dtype, run.cache, sampler)


def _left_by_steps(program: StepProgram) -> tuple[Tensor, ...]:
    """Returns the state that a canvas's steps hand on to the next, without the canvas itself."""
    return program.soft, program.previous, program.unchanged, program.step
