"""The state of the inspector before the guided minute, which comes back after it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from app.context import CHAT, AppContext
from app.design.controls import usable
from app.inspector.page import InspectorPage
from app.settings import store
from engine import Recording


@dataclass(frozen=True)
class Before:
    """The open run at its frame and cell, the page of the window, and the focused widget."""

    page: str
    focus: QWidget | None
    trace: Recording | None
    is_live: bool
    place: int
    selection: int
    has_board: bool

    @classmethod
    def of(cls, context: AppContext, page: InspectorPage) -> Before:
        player = page.player
        return cls(
            page=store.read_page(context.settings) or CHAT,
            focus=QApplication.focusWidget(),
            trace=player.trace,
            is_live=page.is_live,
            place=player.place,
            selection=player.selection,
            has_board=player.board,
        )

    def bring_back(self, page: InspectorPage) -> None:
        """Opens the run again, as it was."""
        page.player.set_board(self.has_board)
        page.compare.set_other(None)
        page.show_view(0)
        if self.trace is None:
            page.close_trace()
        elif self.is_live:
            page.follow_live(self.trace)
        else:
            page.open_trace(self.trace, self.place)
        page.player.select(self.selection)

    def bring_focus_back(self) -> None:
        """Focuses the widget that had the focus, if it is still there."""
        if self.focus is not None and isValid(self.focus) and usable(self.focus):
            self.focus.setFocus()
