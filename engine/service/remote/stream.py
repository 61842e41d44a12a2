"""Reads a stream in a thread of its own, so that whoever takes from it never waits longer than it wants to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Generic, TypeVar

from engine.service.remote.calls import Check

AHEAD = 1_024  # items that are read before they are taken
SLICE_SECONDS = 0.05  # between two looks at whether anybody still takes

T = TypeVar("T")


class RequestCancelledError(Exception):
    """Raised inside a request to a server that was cancelled, or whose stream was closed."""


class BackgroundStream(Generic[T]):
    """Items of an iterator that another thread goes through.

    Args:
        read: makes the iterator; called in that thread with what is to be called while waiting.
        news: notified whenever there is something to take.
    """

    def __init__(self, read: Callable[[Check], Generator[T, None, None]], news: threading.Condition) -> None:
        self._read, self._news = read, news
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._has_ended = self._is_given_up = False
        self._thread = threading.Thread(target=self._go_through, name="safelight-remote", daemon=True)
        self._thread.start()

    def take(self) -> list[T]:
        """What has come since, in order; empty where nothing has.

        Raises:
            BaseException: what the iterator raised, once all before it is taken.
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
        """Whether there is something to take, or will never be again."""
        return bool(self._items) or self._has_ended

    @property
    def is_over(self) -> bool:
        """Whether all is taken."""
        return self._has_ended and not self._items and self._error is None

    def close(self) -> None:
        """End it, with its connection; waits for that as long as a look at the flag takes."""
        self._is_given_up = True
        with self._news:
            self._news.notify_all()
        self._thread.join(10 * SLICE_SECONDS)

    def _check(self) -> None:
        if self._is_given_up:
            raise RequestCancelledError

    def _go_through(self) -> None:
        error: BaseException | None = None
        try:
            with closing(self._read(self._check)) as items:
                for item in items:
                    self._put(item)
        except RequestCancelledError:
            pass
        except Exception as found:  # it is raised where it is taken
            error = found
        with self._news:
            self._error, self._has_ended = error, True
            self._news.notify_all()

    def _put(self, item: T) -> None:
        with self._news:
            while len(self._items) >= AHEAD and not self._is_given_up:
                self._news.wait(SLICE_SECONDS)
            self._check()
            self._items.append(item)
            self._news.notify_all()
