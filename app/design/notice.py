"""A message over a page: an error with its details, or something done with a follow-up action. And two questions in a
dialog, before something is deleted and for a name; both return at once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication, QHideEvent, QIcon
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFrame,
    QInputDialog,
    QLabel,
    QMessageBox,
    QPushButton,
    QWidget,
)

from app.design.controls import button, flow_of, introduce, label, restyle
from app.design.fonts import TEXT_BODY, canvas_font, px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.text_field import PlainText
from app.system.i18n import tr
from app.system.timers import every

STAYS_MS = 10_000  # a confirmation is shown this long, unless it is hovered or focused


class DetailsDialog(QDialog):
    """A read-only text with a Copy button."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Details"))
        self.resize(720, 420)
        shown = introduce(PlainText(text, readOnly=True), tr("Details of the error"))
        shown.setFont(canvas_font(TEXT_BODY))
        copy = button(
            tr("Copy"),
            tr("Copy the details"),
            role="primary",
            clicked=lambda: QGuiApplication.clipboard().setText(text),
        )
        close = button(tr("Close"), tr("Close the details"), clicked=self.accept)
        self.setLayout(column_of((shown, 1), row_of(STRETCH, close, copy), margins=(16, 16, 16, 16), spacing=16))


class Notice(QFrame):
    """A message that is hidden until something is shown. It stays until it is dismissed or replaced; a confirmation
    hides after a while.

    Put it in a layout, or over another widget by ``float_over``.
    """

    covered = Signal(int)  # pixels that the notice covers at the lower edge of the host; 0 once it is hidden

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self._details = ""
        self._host: QWidget | None = None  # the widget that it floats over
        self._column: QWidget | None = None  # the widget whose width it takes
        self._undo: Callable[[], object] | None = None
        self._further: Callable[[], object] | None = None
        self.message = label("", wrap=True, selectable=True, name=tr("Message"))
        self.details = button(tr("Details"), tr("Show the details of the error"), clicked=self._open_details)
        self.further = button("", tr("Go on"), role="plain", clicked=lambda: self._act(self._further))
        self.undo = button(tr("Undo"), tr("Undo the deletion"), clicked=lambda: self._act(self._undo))
        self._leaving = every(self, self._leave, STAYS_MS)
        self.dismiss = button(tr("Dismiss"), tr("Dismiss the message"), clicked=self.hide)
        strip = flow_of(self.further, self.undo, self.details, self.dismiss, gap=16, row_gap=4)
        self.setLayout(column_of(self.message, strip, margins=(12, 8, 12, 8), spacing=8))
        self.hide()

    def float_over(self, host: QWidget, column: QWidget | None = None) -> None:
        """Covers the lower edge of a widget, so that nothing moves when the notice appears or disappears.

        Args:
            host: the widget to cover. The notice becomes a child of the host's parent.
            column: a widget within that parent, whose width the notice takes; without one, the host's.
        """
        self._host, self._column = host, column or host
        self.setParent(host.parentWidget())
        self.setProperty("floats", True)
        for widget in {self._host, self._column}:
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched in (self._host, self._column) and event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
            self._place()
        return False

    def event(self, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Show, QEvent.Type.LayoutRequest):
            self._place()
        return super().event(event)

    def hideEvent(self, _event: QHideEvent) -> None:
        if self.isHidden():  # hidden itself, not only because its page is
            self.covered.emit(0)

    def _place(self) -> None:
        parent = self.parentWidget()
        if self._host is None or self._column is None or parent is None or self.isHidden():
            return
        over, left = self._host.geometry(), self._column.mapTo(parent, QPoint()).x()
        width = self._column.width()
        height = min(self.heightForWidth(width), over.height())
        self.setGeometry(left, over.bottom() + 1 - height, width, height)
        self.raise_()
        self.covered.emit(height)

    def show_undo(self, message: str, undo: Callable[[], object]) -> None:
        """Shows what was done; ``undo`` reverts it."""
        self.show_message(message, undo=undo)

    def show_done(self, message: str, title: str, act: Callable[[], object]) -> None:
        """Confirms for a while what was done; a button with this title runs the next step."""
        self.further.setText(title)
        self.show_message(message, further=act)
        self._leaving.start()

    def leave_undo(self) -> None:
        """Hides an offer to undo, as it is no longer possible."""
        if self._undo is not None:
            self.hide()

    def show_message(
        self,
        message: str,
        details: str = "",
        undo: Callable[[], object] | None = None,
        further: Callable[[], object] | None = None,
    ) -> None:
        """Shows an error; ``details`` may be a traceback. Or what was done, as ``show_undo`` and ``show_done`` do."""
        self._leaving.stop()
        restyle(self, "tone", "done" if further is not None or undo is not None else "")
        self._details, self._undo, self._further = details, undo, further
        self.message.setText(message)
        self.further.setVisible(further is not None)
        self.details.setVisible(bool(details))
        self.undo.setVisible(undo is not None)
        self.show()

    @Slot()
    def _leave(self) -> None:
        focus = QApplication.focusWidget()
        if not self.underMouse() and not (focus is not None and self.isAncestorOf(focus)):
            self.hide()

    def _act(self, act: Callable[[], object] | None) -> None:
        self.hide()
        if act is not None:
            act()

    @Slot()
    def _open_details(self) -> None:
        dialog = DetailsDialog(self._details, self.window())
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


NAME_WIDTH = 400  # pixels at 100 %, of the question for a name


def ask(parent: QWidget, text: str, yes: Callable[[], None]) -> QMessageBox:
    """Opens the question; ``yes`` is called if the user confirms. Enter and Esc cancel."""
    box = QMessageBox(QMessageBox.Icon.Warning, tr("Delete"), text, parent=parent, textFormat=Qt.TextFormat.PlainText)
    delete = box.addButton(tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
    keep = box.addButton(tr("Keep"), QMessageBox.ButtonRole.RejectRole)
    for control in (delete, keep):
        control.setAccessibleName(control.text())
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
    for control in box.findChildren(QPushButton):
        control.setIcon(QIcon())  # some desktops put icons on them
    box.resize(px(NAME_WIDTH), box.sizeHint().height())
    box.textValueSelected.connect(done)
    box.finished.connect(box.deleteLater)
    box.open()
    return box
