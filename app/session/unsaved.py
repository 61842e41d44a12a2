"""Changes on screen that are not in the library yet; they are written in order and retried. Knows no Qt."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from app.library import GoneError, Library, LibraryError
from app.state.chat.conversation import ChatState

SLICE_SECONDS = 0.1  # least time for writing in one call, as many writes may be queued when a lock is released


@dataclass(frozen=True)
class _Waiting:
    chat: ChatState
    write: Callable[[], None]


class Unsaved:
    """Queued writes. Each writes the state at the time it runs, so one for each item is enough."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._waiting: dict[Hashable, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def chats(self) -> list[ChatState]:
        """Conversations with queued writes."""
        return list({id(waiting.chat): waiting.chat for waiting in self._waiting.values()}.values())

    def add(self, key: Hashable, chat: ChatState, write: Callable[[], None]) -> None:
        """Queues a write at the end, in place of the one queued under the same key.

        ``write`` may be retried after a failure, even if it had already written.
        """
        self._waiting.pop(key, None)
        self._waiting[key] = _Waiting(chat, write)

    def write(self, seconds: float) -> None:
        """Runs the queued writes, waiting ``seconds`` in total for another program's lock.

        Raises:
            GoneError: an item was deleted in another window; its write is dropped.
            LibraryError: a write failed; it and all after it stay queued.
        """
        ends = time.monotonic() + max(seconds, SLICE_SECONDS)
        gone: GoneError | None = None
        with self._library.patient(seconds):
            while self._waiting and time.monotonic() < ends:
                key, first = next(iter(self._waiting.items()))
                try:
                    first.write()
                except GoneError as error:
                    gone = error
                except LibraryError:
                    raise
                except BaseException:
                    del self._waiting[key]  # an unexpected exception must not block the writes behind it
                    raise
                del self._waiting[key]
        if gone is not None:
            raise gone
