"""Shows errors and confirmations: over the composer or, on other pages, at the bottom."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Slot

from app.design.notice import Notice
from app.window.pages import Pages


class Notices(QObject):
    """Shows messages without losing any.

    Messages during the start are kept until they can be shown, and are not replaced by later ones.
    """

    def __init__(self, pages: Pages) -> None:
        super().__init__()
        self._pages = pages
        self.notice = Notice()  # shown at the bottom of the pages
        self._has_place = False
        self._said_at_start: list[tuple[str, str]] | None = []  # messages and details; None once the start is over

    @property
    def is_starting(self) -> bool:
        """True if messages are collected instead of replaced."""
        return self._said_at_start is not None

    @Slot(str, str)
    def say(self, message: str, details: str = "") -> None:
        """Shows an error in a sentence; ``details`` may be a traceback."""
        if self._said_at_start is None:
            self._show(message, details)
        elif (message, details) not in self._said_at_start:
            self._said_at_start.append((message, details))
            self._show_said_at_start()

    @Slot(str, str, object)
    def confirm(self, message: str, title: str, act: Callable[[], object]) -> None:
        """Confirms what was done, with a button for the next step."""
        self._place().show_done(message, title, act)

    def begin(self) -> None:
        """Shows the collected messages; called when they can be shown."""
        self._has_place = True
        self._show_said_at_start()

    @Slot()
    def end_start(self) -> None:
        """Ends the start; a message now replaces the previous one."""
        self._said_at_start = None

    def _show_said_at_start(self) -> None:
        if self._has_place and self._said_at_start:
            messages, details = zip(*self._said_at_start, strict=True)
            several = " ".join(f"{message.rstrip('.')}." for message in messages)
            self._show(messages[0] if len(messages) == 1 else several, "\n".join(filter(None, details)))

    def _show(self, message: str, details: str) -> None:
        self._place().show_message(message, details)

    def _place(self) -> Notice:
        page = self._pages.current
        own = None if page is None else page.notice
        return own or self.notice
