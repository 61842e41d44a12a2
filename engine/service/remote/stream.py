"""Reads a stream in its own thread, so that a reader of its items never waits for the network."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, TypeVar

from engine.service.remote.calls import Check

AHEAD = 1_024  # items that are read ahead
SLICE_SECONDS = 0.05  # between two checks whether the stream is closed

T = TypeVar("T")


class RequestCancelledError(Exception):
    """Raised inside a request to a server that was cancelled, or whose stream was closed."""


class BackgroundStream(Generic[T]):
    """The items of an iterator that another thread reads.

    Args:
        read: makes the iterator; called in that thread with a function to call while waiting.
        news: notified whenever there is an item to take, or the end.
    """

    def __init__(self, read: Callable[[Check], Generator[T, None, None]], news: threading.Condition) -> None:
        self._read, self._news = read, news
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._has_ended = self._is_closed = False
        self._thread = threading.Thread(target=self._go_through, name="safelight-remote", daemon=True)
        self._thread.start()

    def take(self) -> list[T]:
        """Returns the items since the last call, in order; may be empty.

        Raises:
            BaseException: that of the iterator, once all items before it are taken.
        """
        with self._news:
            items = list(self._items)
            self._items.clear()
            self._news.notify_all()
            if not items and self._error is not None:
                error, self._error = self._error, None
                raise error
        return items

    @property
    def has_news(self) -> bool:
        """True if there is an item to take, or the stream has ended."""
        return bool(self._items) or self._has_ended

    @property
    def is_over(self) -> bool:
        """True if all items are taken."""
        return self._has_ended and not self._items and self._error is None

    def close(self) -> None:
        """Ends the stream and its connection; waits for its thread, at most ten times ``SLICE_SECONDS``."""
        self._is_closed = True
        with self._news:
            self._news.notify_all()
        self._thread.join(10 * SLICE_SECONDS)

    def _check(self) -> None:
        if self._is_closed:
            raise RequestCancelledError

    def _go_through(self) -> None:
        error: BaseException | None = None
        try:
            with closing(self._read(self._check)) as items:
                for item in items:
                    self._put(item)
        except RequestCancelledError:
            pass
        except Exception as found:  # raised by ``take``
            error = found
        with self._news:
            self._error, self._has_ended = error, True
            self._news.notify_all()

    def _put(self, item: T) -> None:
        with self._news:
            while len(self._items) >= AHEAD and not self._is_closed:
                self._news.wait(SLICE_SECONDS)
            self._check()
            self._items.append(item)
            self._news.notify_all()
