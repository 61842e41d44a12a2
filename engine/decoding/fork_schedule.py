"""Makes the changes of a run, each before its step.

A run over masks can be repeated exactly. So a fork repeats all of it, and changes it before the passes that the changes
name. What is written stays, even if it is banned; a token that a change writes counts as if the model had written it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.run import Run
from engine.decoding.sampler import Edits, Sampler, check_cells
from engine.decoding.steppers import stepper_for
from engine.decoding.token_sampler import TokenSampler
from engine.errors import SafelightError
from engine.events import step_number
from engine.forks import Fork


class WaitingChanges:
    """Hands out each change before its step.

    Raises:
        SafelightError: the changes are not in order.
    """

    def __init__(self, changes: Sequence[Fork]) -> None:
        self._waiting = [change for change in changes if not change.is_empty]
        places = [change.place for change in changes]
        if places != sorted(places):
            raise SafelightError("the forks of a run must be in order of their blocks and steps")

    def due(self, block: int, step: int) -> bool:
        """True if something changes before a step."""
        return any(change.place == (block, step) for change in self._waiting)

    def take(self, block: int, step: int) -> list[Fork]:
        """Removes and returns the changes before a step, without those that change nothing.

        Raises:
            SafelightError: the run has passed the place of one.
        """
        taken = [change for change in self._waiting if change.place <= (block, step)]
        self._waiting = self._waiting[len(taken) :]
        for change in taken:
            if change.place < (block, step):
                raise SafelightError(
                    f"the run has no step {step_number(change.step)} in block {change.block + 1} to fork it at; "
                    "fork it earlier"
                )
        return taken

    def close(self) -> None:
        """Checks at the end of the run that every change was made.

        Raises:
            SafelightError: one was not.
        """
        self.take(1 + max((change.block for change in self._waiting), default=0), 0)


class ForkSchedule:
    """The stepper of a run, and the changes that are still to be made to it.

    Raises:
        SafelightError: the changes are not in order. Its methods raise it for a place that the run did not reach, and
            for a change that cannot be made.
    """

    def __init__(self, run: Run) -> None:
        self._waiting = WaitingChanges(run.changes)
        self.due, self.close = self._waiting.due, self._waiting.close
        self.run, self.stepper = run, stepper_for(run)

    @property
    def config(self) -> GenerationConfig:
        return self.stepper.sampler.config

    def skip_block(self, block: int, written: int, row: Tensor, steps: int) -> None:
        """Leaves out a known block: makes its changes and skips its draws, without running the model.

        Args:
            written, row: tokens of the text before it; its own (C,).

        Raises:
            SafelightError: the run has a canvas of another length there.
        """
        self.open(block, written)
        if len(row) != self.stepper.sampler.length:
            raise SafelightError(
                f"block {block + 1} has {len(row)} tokens; the canvas there has {self.stepper.sampler.length}"
            )
        self.stepper.sampler.noise()
        for step in range(steps):
            if step:
                self.stepper.adopt(self._make(block, step)[0])
            self.stepper.skip_step()

    def open(self, block: int, written: int) -> Edits:
        """Makes the changes before a block behind ``written`` tokens; returns the edits of its first canvas."""
        sampler, edits = self._make(block, 0, written)
        self.stepper.adopt(sampler)
        return edits

    def change(self, block: int, step: int) -> None:
        """Makes the changes before a step other than a block's first."""
        self.stepper.change(*self._make(block, step))

    def _make(self, block: int, step: int, written: int | None = None) -> tuple[Sampler, Edits]:
        sampler, edits = self.stepper.sampler, dict[int, int]()
        most = self.run.canvas_length
        if written is not None:
            sampler = sampler.resized(sampler.config.canvas(most, written))
        for change in self._waiting.take(block, step):
            config = change.config(sampler.config, same_block=block == sampler.pinned_block)
            if step >= config.max_denoising_steps:
                raise SafelightError(
                    f"block {block + 1} ends after its {config.max_denoising_steps} steps; to change something at step "
                    f"{step_number(step)}, set max_denoising_steps above {step}"
                )
            sampler = sampler.changed(config, block, 0 if written is None else config.canvas(most, written))
            edits |= dict(change.edits)
            if change.seed is not None:
                self.stepper.seed(change.seed)
        sampler.check_edits(tuple(edits.items()))
        return sampler, tuple(edits.items())


class MaskedChanges:
    """The changes that are still to be made, and the tokens that are pinned.

    Args:
        size: positions of a block.
        mask: the token that may not be written.
    """

    def __init__(self, changes: Sequence[Fork], size: int, mask: int) -> None:
        self.pinned: dict[int, int] = {}  # place in the text -> token, of all blocks so far
        self._waiting, self._size, self._mask = WaitingChanges(changes), size, mask
        self._block = 0  # of the pins in the settings
        self.has_written = False
        self.close = self._waiting.close

    def make(self, block: int, step: int, sampler: TokenSampler) -> dict[int, int] | None:
        """Makes the changes before a pass; returns the tokens that they write, by their place; None: no change.

        Raises:
            SafelightError: a change that cannot be made, or whose step the run did not have.
        """
        given, due = dict[int, int](), self._waiting.take(block, step)
        for change in due:
            sampler.change(change.config(sampler.config, same_block=block == self._block))
            self._block = block
            if change.seed is not None:
                sampler.generator.manual_seed(change.seed)
            self._check(change, sampler)
            for position, token in change.edits:
                given[block * self._size + position] = token
                self.pinned.pop(block * self._size + position, None)
            self.pinned |= {block * self._size + position: token for position, token in change.pinned}
            given |= {block * self._size + position: token for position, token in change.pinned}
        self.has_written |= bool(given)
        return given if due else None

    def _check(self, change: Fork, sampler: TokenSampler) -> None:
        check_cells("pinned", change.pinned, self._size, sampler.vocab_size)
        check_cells("edited", change.edits, self._size, sampler.vocab_size)
        for position, token in (*change.edits, *change.pinned):
            if token == self._mask:
                raise SafelightError(f"position {position} is to be given the mask; choose another token")
        for position, token in change.edits:
            if token in sampler.config.banned_tokens:
                raise SafelightError(f"position {position} is edited to token {token}, which is banned; release one")
