"""A page of tabs, each with a name. Knows nothing of what the tabs hold."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QTabWidget, QWidget


class TabbedPage(QWidget):
    """The base of pages with tabs. A subclass adds parts and lays out ``tabs``."""

    def __init__(self, id: str, name: str, tabs_name: str) -> None:
        super().__init__()
        self.setObjectName(id)
        self.setAccessibleName(name)
        self._parts: dict[str, QWidget] = {}
        self._first: dict[str, QWidget] = {}
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.tabBar().setAccessibleName(tabs_name)

    def add_part(self, part: str, title: str, widget: QWidget, first: QWidget) -> None:
        """Adds a tab; ``first`` takes the keyboard focus when the page is entered."""
        self._parts[part] = widget
        self._first[part] = first
        self.tabs.addTab(widget, title)

    def show_part(self, part: str) -> None:
        """Switches to a tab by its name."""
        self.tabs.setCurrentWidget(self._parts[part])

    def enter(self) -> None:
        """Moves the keyboard focus to the first field of the current tab.

        No focus proxy of the page does this: Tab would go straight to the proxy and pass by what stands before it.
        """
        self._first[self.part].setFocus()

    @property
    def part(self) -> str:
        """The name of the current tab."""
        return next(name for name, part in self._parts.items() if part is self.tabs.currentWidget())

    def minimumSizeHint(self) -> QSize:
        return QSize(320, 320)
