"""Does work before a run begins that may take seconds, in a thread, while the other runs go on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from engine.service.replies import PassWanted
from engine.types import Cancel

POLL_SECONDS = 0.05  # the wait if no other run has a pass to perform
T = TypeVar("T")


class _Stop:
    """A flag that is set with another one, or by itself."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self.is_abandoned = False

    def is_set(self) -> bool:
        return self.is_abandoned or self._cancel.is_set()


def meanwhile(work: Callable[[Cancel], T], cancel: Cancel) -> Generator[PassWanted, None, T]:
    """Does work in a thread, and returns its result. The work gets a flag that is set once its result is not needed.

    Raises:
        Exception: whatever the work raises.
    """
    stop = _Stop(cancel)
    with ThreadPoolExecutor(1, "safelight-meanwhile") as pool:
        try:
            future = pool.submit(work, stop)
            while not future.done():
                yield PassWanted(future)
        except BaseException:
            stop.is_abandoned = True
            raise
    return future.result()


def without_waiting(passes: Sequence[PassWanted]) -> list[PassWanted]:
    """Returns the passes to perform; if there is none, waits a moment for the work in other threads."""
    works = [wanted.what for wanted in passes if isinstance(wanted.what, Future)]
    others = [wanted for wanted in passes if not isinstance(wanted.what, Future)]
    if works and not others:
        wait(works, POLL_SECONDS, FIRST_COMPLETED)
    return others
