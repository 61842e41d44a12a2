"""How a denoising step is taken: plainly, or as a program on the device.

The plain stepper makes the sampler's draws. It is the oracle, and what golden tests hold to the reference. The device
stepper takes the same steps with draws of its own.

Settings can change between two steps, and draws can be left out, so that a run goes on from the middle of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding import sampling
from engine.decoding.program_cache import HasStepProgram, ProgramCache, choices_of
from engine.decoding.protocols import Denoiser, commit
from engine.decoding.sampler import Edits, Top, non_finite, to_host
from engine.decoding.sampler import Sampler as Sampler
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache
from engine.types import Tokens


@dataclass(frozen=True)
class Step:
    """What one step came to, on the host. C positions."""

    argmax: Tokens
    candidates: Tokens
    entropy: NDArray[np.float32]
    accepted: NDArray[np.bool_]
    next_canvas: Tokens
    converged: bool
    top: Top  # (C, K) likeliest tokens and their probabilities, if asked for


class Stepper(Protocol):
    """Takes the steps of one canvas after another."""

    sampler: Sampler
    commits_with_step: bool  # a finished canvas is read in the pass of the next one's first step

    def commit(self, ids: Tensor) -> None:
        """A finished canvas (C,) becomes part of the cache's text, at the latest when the next one begins."""

    def begin(self, block: int, canvas: Tensor) -> None:
        """A fresh canvas (C,) behind the cache's text."""

    def step(self, index: int, ahead: bool = True) -> Step:
        """Step ``index`` of the canvas, 0 upward.

        Args:
            ahead: whether the next step may begin before this one's facts are looked at; not where something changes
                between the two.

        Raises:
            SafelightError: the model gave non-finite logits.
        """

    def seed(self, seed: int) -> None:
        """Begin another random stream."""

    def pass_canvas(self) -> None:
        """Leave out the draws of a canvas's first noise."""

    def pass_step(self) -> None:
        """Leave out the draws of a step."""

    def adopt(self, sampler: Sampler) -> None:
        """Other settings, between two canvases."""

    def change(self, sampler: Sampler, edits: Edits) -> None:
        """Other settings, between two steps of a canvas, which is amended to them."""


def stepper_for(model: Denoiser, cache: KVCache, sampler: Sampler) -> Stepper:
    """The device's program where the model has one, else the plain way."""
    if isinstance(model, HasStepProgram) and model.has_step_program:
        return DeviceStepper(model, cache, sampler)
    return PlainStepper(model, cache, sampler)


class PlainStepper:
    """One step after the other in plain torch, on any device."""

    commits_with_step = False

    def __init__(self, model: Denoiser, cache: KVCache, sampler: Sampler) -> None:
        self.model, self.cache, self.sampler = model, cache, sampler

    def commit(self, ids: Tensor) -> None:
        commit(self.model, ids, self.cache)

    def begin(self, block: int, canvas: Tensor) -> None:
        self.block, self.canvas = block, canvas
        self.conditioning: Tensor | None = None
        self.history: list[Tensor] = []

    def step(self, index: int, ahead: bool = True) -> Step:  # noqa: ARG002
        sampler = self.sampler
        logits = self.model.denoise(self.canvas, self.cache, self.conditioning)
        logits = sampler.scale(logits, sampler.config.temperature(index), self.block, index)
        candidates, entropy, accepted, self.canvas = sampler.step(logits)
        argmax = logits.argmax(dim=-1)
        self.history.append(argmax)  # all of it: a change may ask for more stable steps than before
        self.conditioning = logits.to(self.model.dtype)  # as the reference does: in bf16 it is fed back rounded
        return Step(
            to_host(argmax),
            to_host(candidates),
            entropy.float().cpu().numpy(),
            accepted.cpu().numpy(),
            to_host(self.canvas),
            sampler.stop(self.history, entropy),
            sampler.top(logits),
        )

    def seed(self, seed: int) -> None:
        self.sampler.generator.manual_seed(seed)

    def pass_canvas(self) -> None:
        self.sampler.noise()

    def pass_step(self) -> None:
        self.sampler.pass_step()

    def adopt(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def change(self, sampler: Sampler, edits: Edits) -> None:
        self.sampler = sampler
        self.canvas = sampler.amended(self.canvas, self.block, edits)


class DeviceStepper:
    """Steps of a ``StepProgram``; on a GPU the next one runs while this one's event is looked at.

    A finished canvas is committed by the first step of the next.
    """

    commits_with_step = True

    def __init__(self, model: HasStepProgram, cache: KVCache, sampler: Sampler) -> None:
        self.model, self.cache, self.sampler = model, cache, sampler
        self.program = ProgramCache.of(model).get(model.network, cache, sampler)
        self.finished: Tensor | None = None
        self.launched = False  # whether the next step is on its way
        self.program.seed(sampler.generator.initial_seed())

    def commit(self, ids: Tensor) -> None:
        if self.finished is not None:  # nobody begins a canvas behind it: any one does
            with self.program.undone():
                self.program.begin(self.finished, None, self.sampler.config, self.finished)
                self.program.launch(0)
            self._advance()
        self.finished = ids

    def begin(self, block: int, canvas: Tensor) -> None:
        self.block = block
        self.program.begin(canvas, self.sampler.pinned_ids(block), self.sampler.config, self.finished)
        self._launch(0)
        self._advance()

    def step(self, index: int, ahead: bool = True) -> Step:
        if not self.launched:
            self._launch(index)
        told = self.program.collect(index)
        self.launched = False
        if not told.finite:
            raise non_finite(self.block, index)
        if (
            ahead
            and self.program.runs_aside
            and not told.converged
            and index + 1 < self.sampler.config.max_denoising_steps
        ):
            self._launch(index + 1)
        return Step(
            to_host(told.argmax),
            to_host(told.candidates),
            told.entropy.numpy().copy(),
            told.accepted.numpy(),
            to_host(told.next_canvas),
            told.converged,
            () if told.top is None else (to_host(told.top[0]), told.top[1].numpy().copy()),
        )

    def seed(self, seed: int) -> None:
        self.sampler.generator.manual_seed(seed)
        self.program.seed(seed)

    def pass_canvas(self) -> None:
        self.sampler.noise()

    def pass_step(self) -> None:
        program = self.program
        sampling.uniform_tokens((program.length,), program.choices, program.generator)
        program.draw[1] += 1

    def adopt(self, sampler: Sampler) -> None:
        """Takes another program where other tokens may be sampled; the random streams go on."""
        if choices_of(sampler) != choices_of(self.sampler):
            drawn, draw = self.program.generator.get_state(), self.program.draw.clone()
            del self.program  # its memory first
            program = ProgramCache.of(self.model).get(self.model.network, self.cache, sampler)
            program.generator.set_state(drawn)
            program.draw.copy_(draw)
            self.program = program
        self.sampler = sampler

    def change(self, sampler: Sampler, edits: Edits) -> None:
        """Begins the canvas anew as it stands, with what the steps before have left."""
        canvas = sampler.amended(self.program.canvas, self.block, edits)
        left = [part.clone() for part in _left_by_steps(self.program)]
        self.adopt(sampler)
        self.program.begin(canvas, sampler.pinned_ids(self.block), sampler.config)
        for part, kept in zip(_left_by_steps(self.program), left, strict=True):
            part.copy_(kept)

    def _advance(self) -> None:
        """What was to be committed is part of the text now."""
        if self.finished is not None:
            self.cache.advance(len(self.finished))
            self.cache.name(self.finished.tolist())
            self.finished = None

    def _launch(self, index: int) -> None:
        self.program.launch(index)
        self.launched = True


def _left_by_steps(program: StepProgram) -> tuple[Tensor, ...]:
    """What a canvas's steps hand on to the next, beside the canvas itself."""
    return program.soft, program.previous, program.unchanged, program.step
