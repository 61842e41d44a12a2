"""What is on screen and not in the library yet: writes in their order, tried until they are done. Knows no Qt."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from app.library import GoneError, Library, LibraryError
from app.state.chat.conversation import ChatState

SLICE_SECONDS = 0.1  # of writing at a stretch: when a lock has gone, many writes may have gathered


@dataclass(frozen=True)
class _Waiting:
    chat: ChatState
    write: Callable[[], None]


class Unsaved:
    """Writes that wait. Each writes what there is when it is done, so one for each thing is enough."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._waiting: dict[Hashable, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def chats(self) -> list[ChatState]:
        """The conversations of which something waits."""
        return list({id(waiting.chat): waiting.chat for waiting in self._waiting.values()}.values())

    def add(self, key: Hashable, chat: ChatState, write: Callable[[], None]) -> None:
        """Write this after all that waits, in place of what waits under the same key.

        ``write`` may be tried again after a failure that came when it had written.
        """
        self._waiting.pop(key, None)
        self._waiting[key] = _Waiting(chat, write)

    def write(self, seconds: float) -> None:
        """Write what waits, and wait so long in all for another program's lock.

        Raises:
            GoneError: something belongs to what was deleted in another window; it waits no more.
            LibraryError: something could not be written; it and all after it wait on.
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
                    del self._waiting[key]  # a fault of ours: what comes after it must not wait for ever
                    raise
                del self._waiting[key]
        if gone is not None:
            raise gone
