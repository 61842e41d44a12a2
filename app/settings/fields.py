"""Controls for declared settings, with the label, tool tip and bounds of the declaration. Knows no values."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QLocale, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QLineEdit, QSpinBox

from app.design.controls import ChoiceBox, describe, introduce
from app.settings.values import DECODER, SEED, decoder_explanation, decoder_title
from app.system.i18n import tr
from engine.config import LARGEST_SEED
from engine.settings import Choice, Setting, Switch


class WholeBox(QSpinBox):
    """A box for a declared whole number; it shows None in the declaration's words for that.

    It reacts to the wheel only when focused, so that scrolling the strip changes nothing.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setRange(int(setting.low) - bool(setting.none), int(setting.high))
        self.setSpecialValueText(tr(setting.none))
        self.setSingleStep(int(setting.step))
        self.setGroupSeparatorShown(True)
        _declare(self, setting)

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event) if self.hasFocus() else event.ignore()

    def put(self, value: float | None) -> None:
        self.setValue(self.minimum() if value is None else int(value))


class RealBox(QDoubleSpinBox):
    """A box for a declared real number, as ``WholeBox``; it shows no trailing zeros.

    A point and a comma are read alike, whatever the language: Qt drops the sign that is not the language's own, and so
    makes 2 of 0.2.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setLocale(QLocale.c())
        self.setDecimals(setting.decimals)
        self.setRange(setting.low, setting.high)
        self.setSingleStep(setting.step)
        _declare(self, setting)

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event) if self.hasFocus() else event.ignore()

    def put(self, value: float | None) -> None:
        self.setValue(self.minimum() if value is None else value)

    def textFromValue(self, value: float) -> str:
        return f"{value:.{self.decimals()}f}".rstrip("0").rstrip(".")

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        return super().validate(text.replace(",", "."), place)[0], text, place

    def valueFromText(self, text: str) -> float:
        return super().valueFromText(text.replace(",", "."))


NumberBox = WholeBox | RealBox


def _declare(box: NumberBox, setting: Setting) -> None:
    """Gives a box the name and the tool tip of its setting."""
    box.setKeyboardTracking(False)
    box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    name, explanation = tr(setting.label), tr(setting.explanation)
    bounds = tr("From {low} to {high}.", low=f"{setting.low:,g}", high=f"{setting.high:,g}")
    said = f"{name}, {tr(setting.unit)}" if setting.unit else name
    introduce(box, said, explanation, tip=f"{explanation} {bounds}", id=setting.name)


def number_box(setting: Setting) -> NumberBox:
    return WholeBox(setting) if setting.is_whole else RealBox(setting)


def number_in(box: NumberBox, setting: Setting, known: float | None = None) -> float | None:
    """Returns the number that a box shows, or None; ``known`` if that is shown rounded."""
    shown = None if box.value() < setting.low else box.value()
    return shown if known is None or round(known, setting.decimals) != shown else known


class _Seeds(QValidator):
    """Accepts seeds and an empty text, which the box replaces."""

    def validate(self, text: str, place: int) -> tuple[QValidator.State, str, int]:
        is_seed = not text or (text.isascii() and text.isdigit() and int(text) <= LARGEST_SEED)
        return (QValidator.State.Acceptable if is_seed else QValidator.State.Invalid), text, place


class SeedBox(QLineEdit):
    """A field for a seed, which has more bits than a spin box allows; the arrow keys change it by one."""

    valueChanged = Signal()  # noqa: N815 - as of Qt's boxes; at the end of an edit, or by ``setValue``

    def __init__(self) -> None:
        super().__init__("0")
        self._value = 0
        self.setValidator(_Seeds(self))
        bounds = tr("From {low} to {high}.", low=0, high=LARGEST_SEED)
        tip = f"{tr(SEED.explanation)} {bounds}"
        introduce(self, tr(SEED.label), tr(SEED.explanation), tip=tip, id=SEED.name)
        self.editingFinished.connect(self._apply_text)

    def value(self) -> int:
        """Returns the seed, from 0 to ``LARGEST_SEED``."""
        return self._value

    def setValue(self, value: int) -> None:
        """Shows another seed.

        Raises:
            ValueError: it is not a seed. This is a bug in the caller, since such a text cannot be typed.
        """
        if not 0 <= value <= LARGEST_SEED:
            raise ValueError(f"{value} is not a seed")
        self.setText(str(value))
        self._apply_text()

    @Slot()
    def _apply_text(self) -> None:
        """Applies the typed text; an empty one restores the previous seed."""
        seed = int(self.text() or self._value)
        self.setText(str(seed))
        if seed != self._value:
            self._value = seed
            self.valueChanged.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() not in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            super().keyPressEvent(event)
            return
        after = int(self.text() or self._value) + (1 if event.key() == Qt.Key.Key_Up else -1)
        if 0 <= after <= LARGEST_SEED:
            self.setValue(after)


def choice_box(choice: Choice) -> ChoiceBox:
    """Returns a combo box of a declared choice's options, with label and tool tip."""
    box = ChoiceBox()
    for value, text in choice.options:
        box.addItem(tr(text), value)
    return introduce(box, tr(choice.label), tr(choice.explanation), tip=tr(choice.explanation), id=choice.name)


def show_decoders(box: ChoiceBox, decoders: Sequence[str], chosen: str, none: str = "") -> None:
    """Offers decoders by their titles, with "" titled ``none``, and describes the chosen one in the tool tip."""
    if [box.itemData(place) for place in range(box.count())] != list(decoders):
        box.clear()
        for name in decoders:
            box.addItem(decoder_title(name) if name else none, name)
            box.setItemData(box.count() - 1, decoder_explanation(name, decoders), Qt.ItemDataRole.ToolTipRole)
    box.setCurrentIndex(box.findData(chosen))
    explanation = decoder_explanation(chosen, decoders) or tr(DECODER.explanation)
    describe(box, explanation)


def flag_box(switch: Switch) -> QCheckBox:
    """Returns a check box of a declared switch, with label and tool tip."""
    return introduce(
        QCheckBox(tr(switch.label)),
        tr(switch.label),
        tr(switch.explanation),
        tip=tr(switch.explanation),
        id=switch.name,
    )
