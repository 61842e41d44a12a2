"""Controls for declared settings: each named, explained and bounded by its declaration. Knows no values."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QSpinBox

from app.settings.spec import Choice, Setting
from app.system.i18n import tr


class WholeBox(QSpinBox):
    """Changes by the wheel only when it has the keyboard, so that scrolling the strip changes nothing."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


class RealBox(QDoubleSpinBox):
    """As ``WholeBox``; shows no more decimals than the number has."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def textFromValue(self, value: float) -> str:
        text = self.locale().toString(value, "f", self.decimals())
        point = self.locale().decimalPoint()
        return text.rstrip("0").rstrip(point) if point in text else text


NumberBox = WholeBox | RealBox


def number_box(setting: Setting) -> NumberBox:
    """A spin box for a declared number, named and explained."""
    box: NumberBox
    if setting.is_whole:
        box = WholeBox()
        box.setRange(int(setting.low), int(setting.high))
        box.setSingleStep(int(setting.step))
    else:
        box = RealBox()
        box.setDecimals(setting.decimals)
        box.setRange(setting.low, setting.high)
        box.setSingleStep(setting.step)
    box.setKeyboardTracking(False)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.setObjectName(setting.name)
    name, explanation = tr(setting.label), tr(setting.explanation)
    box.setAccessibleName(f"{name}, {tr(setting.unit)}" if setting.unit else name)
    box.setAccessibleDescription(explanation)
    bounds = tr("From {low} to {high}.", low=f"{setting.low:g}", high=f"{setting.high:g}")
    box.setToolTip(f"{explanation} {bounds}")
    return box


class ChoiceBox(QComboBox):
    """Changes by the wheel only when it has the keyboard; holds its values as data."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


def choice_box(choice: Choice) -> ChoiceBox:
    """A list of a declared choice's options, named and explained."""
    box = ChoiceBox()
    for value, text in choice.options:
        box.addItem(tr(text), value)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    box.setObjectName(choice.name)
    box.setAccessibleName(tr(choice.label))
    box.setAccessibleDescription(tr(choice.explanation))
    box.setToolTip(tr(choice.explanation))
    return box


def flag_box(name: str, text: str, explanation: str) -> QCheckBox:
    """A switch with its text, which is in the source's language."""
    box = QCheckBox(tr(text))
    box.setObjectName(name)
    box.setAccessibleName(tr(text))
    box.setAccessibleDescription(tr(explanation))
    box.setToolTip(tr(explanation))
    return box
