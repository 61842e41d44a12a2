"""The context menu of a conversation."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from app.library import Summary
from app.system.i18n import tr

EXPORTS = (("markdown", "Markdown"), ("json", "JSON"))


class RowMenu(QObject):
    """Rebuilds the menu for each row; emits ``chosen(id, choice)``.

    Choices are ``open``, ``rename``, ``pin``, ``unpin``, ``delete``, ``import``, and ``export:FORMAT``.
    """

    chosen = Signal(int, str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.menu = QMenu(parent)
        self.menu.triggered.connect(self._choose)
        self._export = QMenu(tr("Export as"), self.menu)
        self._id = -1

    def fill(self, summary: Summary | None, title: str, count: int = 1) -> QMenu:
        """Fills the menu for a conversation, for ``count`` selected ones, or for the empty space below the list."""
        self.menu.clear()
        self._id = -1 if summary is None else summary.id
        if summary is not None and count > 1:
            self.menu.setAccessibleName(tr("Actions for the list"))
            self._add(self.menu, tr("Delete {count} conversations", count=count) + "\t" + tr("Del"), "delete")
        elif summary is not None:
            self.menu.setAccessibleName(tr("Actions for {title}", title=title))
            self._add(self.menu, tr("Open") + "\t" + tr("Enter"), "open")
            self._add(self.menu, tr("Rename") + "\t" + "F2", "rename")
            self._add(self.menu, tr("Unpin") if summary.pinned else tr("Pin"), "unpin" if summary.pinned else "pin")
            self._export.clear()
            for format, name in EXPORTS:
                self._add(self._export, name, f"export:{format}")
            self.menu.addMenu(self._export)
            self.menu.addSeparator()
            self._add(self.menu, tr("Delete") + "\t" + tr("Del"), "delete")
        else:
            self.menu.setAccessibleName(tr("Actions for the list"))
            self._add(self.menu, tr("Import…"), "import")
        return self.menu

    def _add(self, menu: QMenu, text: str, choice: str) -> None:
        action = menu.addAction(text)
        action.setData(choice)

    def _choose(self, action: QAction) -> None:
        choice = action.data()
        if choice:
            self.chosen.emit(self._id, choice)
