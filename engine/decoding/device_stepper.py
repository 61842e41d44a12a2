"""Takes denoising steps as a program on the device; also chooses between that and plain torch."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

from engine.decoding import sampling
from engine.decoding.plain_stepper import PlainStepper, Step
from engine.decoding.prefill import commit
from engine.decoding.program_cache import HasStepProgram, ProgramCache
from engine.decoding.protocols import LaunchStep, Passes
from engine.decoding.run import Run
from engine.decoding.sampler import Edits, Sampler, non_finite, to_host
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache


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

    def skip_canvas(self) -> None:
        self.sampler.noise()

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
