"""The changes of a run that are still to be made, in order of their places."""

from __future__ import annotations

from collections.abc import Sequence

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
