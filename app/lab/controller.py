"""Connects the Lab to the app: a card shows its page."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.context import AppContext
from app.lab.page import LabPage


class LabController(QObject):
    """Shows the cards and goes where they lead."""

    notice = None  # the window shows errors

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.widget = self.page = LabPage()
        self.setParent(self.page)  # so that no signal arrives once the page is destroyed
        self.page.page_chosen.connect(context.show_page)

    def enter(self) -> None:
        """Focuses the first card when the page is shown."""
        self.page.race.setFocus()


def build(context: AppContext) -> LabController:
    """Returns the Lab."""
    return LabController(context)
