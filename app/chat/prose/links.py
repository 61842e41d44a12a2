"""Opening an address outside the app: it is shown first, and nothing is opened without a yes."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.prose.parse import opens
from app.chat.prose.safe import safe
from app.design.controls import button, label
from app.system.i18n import tr


class OpenLink(QDialog):
    """Asks whether to open an address in the browser or the mail program."""

    def __init__(self, address: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.address = address
        self.setWindowTitle(tr("Open a link"))
        self.setMinimumWidth(480)
        shown = label(safe(address), "prose", wrap=True, selectable=True)
        shown.setAccessibleName(tr("Address"))
        self.cancel = button(tr("Cancel"), tr("Do not open the address"), role="plain")
        self.open_it = button(tr("Open"), tr("Open the address"), role="primary")
        self.cancel.clicked.connect(self.reject)
        self.open_it.clicked.connect(self._open)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addStretch(1)
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.open_it)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(16)
        column.addWidget(label(tr("This opens outside Safelight:"), "caption"))
        column.addWidget(shown)
        column.addLayout(buttons)

    @Slot()
    def _open(self) -> None:
        if opens(self.address):
            QDesktopServices.openUrl(QUrl(self.address))
        self.accept()


def ask_to_open(address: str, parent: QWidget) -> OpenLink:
    """Show the question; returns at once."""
    dialog = OpenLink(address, parent.window())
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog
