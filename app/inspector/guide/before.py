"""The state of the inspector before the guided minute, which comes back after it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from app.context import CHAT, AppContext
from app.design.controls import usable
from app.inspector.forks.panel import Held
from app.inspector.page import InspectorPage
from app.settings import store
from engine import Mark, Recording


@dataclass(frozen=True)
class Before:
    """The open run with all that was chosen in it, the page of the window, and the focused widget."""

    page: str
    focus: QWidget | None
    trace: Recording | None
    is_live: bool
    place: int
    selection: int
    has_board: bool
    other: Recording | None  # that it was compared with
    view: int
    tab: int
    held: Held
    marks: tuple[Mark, ...]

    @classmethod
    def of(cls, context: AppContext, page: InspectorPage) -> Before:
        player, forks = page.player, page.change.forks
        return cls(
            page=store.read_page(context.settings) or CHAT,
            focus=QApplication.focusWidget(),
            trace=player.trace,
            is_live=page.is_live,
            place=player.place,
            selection=player.selection,
            has_board=player.board,
            other=page.compare.trace,
            view=page.main.currentIndex(),
            tab=page.side.currentIndex(),
            held=forks.held(),
            marks=forks.spans.listed,
        )

    def bring_back(self, page: InspectorPage) -> None:
        """Opens the run again, as it was."""
        player, forks = page.player, page.change.forks
        player.set_board(self.has_board)
        if self.trace is None:
            page.close_trace()
        elif self.is_live:
            page.follow_live(self.trace)
        else:
            page.open_trace(self.trace, self.place)
        page.compare.set_other(self.other)
        if self.trace is not None:
            player.select(self.selection)
            page.show_view(self.view)
            page.side.setCurrentIndex(self.tab)
            forks.hold(self.held)
            forks.spans.hold(self.marks)

    def bring_focus_back(self) -> None:
        """Focuses the widget that had the focus, if it is still there."""
        if self.focus is not None and isValid(self.focus) and usable(self.focus):
            self.focus.setFocus()
