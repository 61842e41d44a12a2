"""Asks before something is deleted, and for a name. Both questions return at once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QInputDialog, QLabel, QMessageBox, QPushButton, QWidget

from app.design.fonts import px
from app.system.i18n import tr

NAME_WIDTH = 400  # pixels at 100 %, of the question for a name


def ask(parent: QWidget, text: str, yes: Callable[[], None]) -> QMessageBox:
    """Opens the question; ``yes`` is called if the user confirms. Enter and Esc cancel."""
    box = QMessageBox(QMessageBox.Icon.Warning, tr("Delete"), text, parent=parent, textFormat=Qt.TextFormat.PlainText)
    delete = box.addButton(tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
    keep = box.addButton(tr("Keep"), QMessageBox.ButtonRole.RejectRole)
    for made in (delete, keep):
        made.setAccessibleName(made.text())
    delete.setProperty("role", "danger")
    box.setDefaultButton(keep)
    box.setEscapeButton(keep)
    delete.clicked.connect(yes)
    box.finished.connect(box.deleteLater)
    box.open()
    return box


def ask_name(parent: QWidget, text: str, name: str, done: Callable[[str], None]) -> QInputDialog:
    """Asks for a name, which may be empty; ``done`` gets it if the user confirms."""
    box = QInputDialog(parent)
    box.setWindowTitle(tr("Rename"))
    box.setLabelText(text)
    box.setTextValue(name)
    box.setOkButtonText(tr("Rename"))
    box.setCancelButtonText(tr("Cancel"))
    for said in box.findChildren(QLabel):
        said.setTextFormat(Qt.TextFormat.PlainText)
    for made in box.findChildren(QPushButton):
        made.setIcon(QIcon())  # some desktops put icons on them
    box.resize(px(NAME_WIDTH), box.sizeHint().height())
    box.textValueSelected.connect(done)
    box.finished.connect(box.deleteLater)
    box.open()
    return box
