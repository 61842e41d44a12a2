"""The one combo box of the app."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QWheelEvent
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox

from app.design.fonts import px

BEARINGS = 2  # pixels at 100 %: the side bearings at both ends, which Qt omits when it measures the longest text


class ChoiceBox(QComboBox):
    """A combo box that reacts to the wheel only when focused. A text that does not fit is elided; the list shows it
    whole."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # the wheel does not focus it

    def sizeHint(self) -> QSize:
        return super().sizeHint() + QSize(px(BEARINGS), 0)

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        super().initStyleOption(option)
        style, part = self.style(), QStyle.SubControl.SC_ComboBoxEditField
        room = style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self).width()
        metrics = QFontMetrics(self.font())
        option.currentText = metrics.elidedText(option.currentText, Qt.TextElideMode.ElideRight, room)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def showPopup(self) -> None:
        view = self.view()
        view.setMinimumWidth(view.sizeHintForColumn(0) + 2 * view.frameWidth())  # the list is wider than a narrow box
        super().showPopup()
