"""The sampler's drawer at the right: widgets derived from the declarations in ``app.settings.values``."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from app.design import themes
from app.design.controls import Hairline, button, introduce, label, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, Part, boxed, column_of, row_of
from app.settings.fields import (
    NumberBox,
    SeedBox,
    choice_box,
    flag_box,
    number_box,
    number_in,
    show_decoders,
)
from app.settings.values import ACCEPTANCE, DECODER, MAIN, SAMPLER, SEED, TOKEN_THOUGHTS, DecodingChoice, SettingsValues
from app.system.i18n import tr
from engine import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION, BY_TOKEN
from engine.settings import Setting, Switch

STRIP_WIDTH, MAX_STRIP_WIDTH = 312, 440  # pixels; the width scales with the text size


class SettingsStrip(QWidget):
    """Edits a ``SettingsValues`` in place and emits ``changed``. The settings of ``MAIN`` come first; all others are
    folded under ``advanced``."""

    changed = Signal()

    def __init__(self, values: SettingsValues) -> None:
        super().__init__()
        self.setObjectName("settings")
        themes.changed.connect(self._fit)
        self._fit()
        self._values = values
        self._defaults = GenerationConfig()
        self._filling = False
        self._allowed: frozenset[str] | None = None  # the settings that have an effect with the model; None: all
        self.boxes: dict[str, NumberBox] = {name: number_box(setting) for name, setting in SAMPLER.items()}
        self._rows: dict[str, QWidget] = {}  # the row of each number, by name
        self.reset = button(
            tr("Reset to the model's defaults"), tip=tr("Removes your changes here"), clicked=self._reset
        )
        self.refusal = label("", "remark", wrap=True, name=tr("Why some settings are missing"))
        self.refusal.hide()
        self.seed = SeedBox()
        self.random_seed = introduce(
            flag_box(Switch("Random for each answer", "Each answer gets its own seed.", name="random_seed")),
            tr("Random seed for each answer"),
        )
        self.decoder, self.acceptance = choice_box(DECODER), choice_box(ACCEPTANCE)
        self.about_decoder = label("", "caption", wrap=True)
        self.token_thoughts = flag_box(TOKEN_THOUGHTS)
        self.advanced = button("", tr("Advanced settings"), checkable=True)
        self._fold = QWidget()
        self._inside = QWidget()
        self._inside.setLayout(self._lay_out())
        self._scroll = introduce(QScrollArea(widgetResizable=True), tr("Sampler"))
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setLayout(row_of(Hairline(Qt.Orientation.Vertical), (self._scroll, 1), spacing=0))
        self._connect()
        self._show_fold()
        self.show_values(self._defaults)

    def _lay_out(self) -> QVBoxLayout:
        column = column_of(label(tr("Sampler"), "title"), self.reset, self.refusal, spacing=4)
        thoughts = label(tr(TOKEN_THOUGHTS.explanation), "caption", wrap=True)
        kept = label(tr(ACCEPTANCE.explanation), "caption", wrap=True)
        for box in (self.decoder, self.acceptance):  # elide long titles, so that the drawer stays as wide as it is
            box.setSizeAdjustPolicy(box.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            box.setMinimumContentsLength(12)
        self._rows = {
            DECODER.name: _boxed(label(tr(DECODER.label), "setting"), self.decoder, self.about_decoder),
            TOKEN_THOUGHTS.name: _boxed(self.token_thoughts, thoughts),
            ACCEPTANCE.name: _boxed(label(tr(ACCEPTANCE.label), "setting"), self.acceptance, kept),
            **{name: _row(setting, self.boxes[name]) for name, setting in SAMPLER.items()},
        }
        for name in MAIN:
            column.addWidget(self._rows[name])
        self._fold.setLayout(column_of(*(row for name, row in self._rows.items() if name not in MAIN), spacing=4))
        column.addWidget(_row(SEED, self.random_seed, self.seed))
        column.addLayout(row_of(self.advanced, STRETCH, margins=(0, 16, 0, 0)))
        column.addWidget(self._fold)
        column.addStretch(1)
        column.setContentsMargins(20, 20, 20, 24)
        return column

    def _connect(self) -> None:
        for box in (*self.boxes.values(), self.seed):
            box.valueChanged.connect(self._apply_controls)
        self.random_seed.toggled.connect(self._apply_controls)
        for choice in (self.decoder, self.acceptance):
            choice.currentIndexChanged.connect(self._take_decoding)
        self.token_thoughts.toggled.connect(self._take_decoding)
        self.advanced.toggled.connect(self._show_fold)

    def setVisible(self, visible: bool) -> None:
        if visible and self._scroll.widget() is None:  # measuring so many fields would slow down the window's start
            self._scroll.setWidget(self._inside)
        super().setVisible(visible)

    @Slot()
    def _fit(self) -> None:
        self.setFixedWidth(min(px(STRIP_WIDTH), MAX_STRIP_WIDTH))

    @Slot()
    def _show_fold(self) -> None:
        is_open = self.advanced.isChecked()
        self.advanced.setText(f"{'▾' if is_open else '▸'} {tr('Advanced')}")
        self._fold.setVisible(is_open)

    def show_setting(self, name: str) -> None:
        """Focuses a setting of the sampler, by its name."""
        if name in self.boxes and name not in MAIN:
            self.advanced.setChecked(True)
        box = self.boxes.get(name) or (self.seed if self.seed.isEnabled() else self.random_seed)
        self._scroll.ensureWidgetVisible(box)
        box.setFocus()

    def show_values(self, defaults: GenerationConfig) -> None:
        """Shows the values over a model's defaults."""
        self._defaults = defaults
        self._filling = True
        decoders, shown = self._values.decoders, self._values.present_decoding
        show_decoders(self.decoder, decoders, shown.decoder)
        self.about_decoder.setText(self.decoder.toolTip())
        self.token_thoughts.setChecked(self._values.decoding.token_thoughts)
        self.acceptance.setCurrentIndex(self.acceptance.findData(shown.acceptance))
        for name, box in self.boxes.items():
            box.put(self._values.value(name, defaults))
        self.random_seed.setChecked(self._values.seed is None)
        self.seed.setValue(self._values.seed or 0)
        self._filling = False
        self._show_state()

    def allow(self, names: frozenset[str] | None, reason: str = "") -> None:
        """Offers only these settings of the sampler, and "seed" if it is named; None offers all. ``reason`` says why
        not the others.

        Settings without effect in the present decoding are hidden, too.
        """
        self._allowed = names
        for field in (self.seed, self.random_seed):
            field.setEnabled(self._is_allowed(SEED.name))
        show_line(self.refusal, reason)
        self._show_state()

    def _is_allowed(self, name: str) -> bool:
        return self._allowed is None or name in self._allowed

    @Slot()
    def refresh(self) -> None:
        if not self._filling:
            self.show_values(self._defaults)

    def _show_state(self) -> None:
        self.seed.setVisible(not self.random_seed.isChecked())
        values = self._values
        shown, decoders = values.present_decoding, values.decoders
        for name in SAMPLER:
            self._rows[name].setVisible(name in shown.settings and self._is_allowed(name))
        denoises, thinks = shown.decoder == BLOCK_DIFFUSION, self._is_allowed("thinking_tokens")
        self._rows[DECODER.name].setVisible(len(decoders) > 1)
        self._rows[TOKEN_THOUGHTS.name].setVisible(
            denoises and BY_TOKEN in decoders and (thinks or shown.token_thoughts)
        )
        self._rows[ACCEPTANCE.name].setVisible(denoises)
        self.advanced.setVisible(not all(row.isHidden() for name, row in self._rows.items() if name not in MAIN))
        self.reset.setEnabled(bool(values.overrides) or values.seed is not None or bool(values.decoding.changes))

    @Slot()
    def _apply_controls(self) -> None:
        if self._filling:
            return
        for name, setting in SAMPLER.items():
            before = self._values.value(name, self._defaults)
            if (shown := number_in(self.boxes[name], setting, before)) != before:
                self._values.set(name, shown, self._defaults)
        self._values.seed = None if self.random_seed.isChecked() else self.seed.value()
        self._show_state()
        self._emit_changed()

    @Slot()
    def _take_decoding(self) -> None:
        """Takes a change of the decoding; what is not offered keeps its value."""
        if self._filling:
            return
        values, chosen = self._values, self.decoder.currentData() or ""
        values.decoding = DecodingChoice(
            "" if values.decoders[:1] == (chosen,) else chosen,
            self.token_thoughts.isChecked(),
            self.acceptance.currentData() or "",
        )
        self.show_values(self._defaults)
        self._emit_changed()

    @Slot()
    def _reset(self) -> None:
        self._values.reset()
        self.show_values(self._defaults)
        self._emit_changed()

    def _emit_changed(self) -> None:
        self._filling = True  # this strip already shows the change
        self.changed.emit()
        self._filling = False


def _row(setting: Setting, *fields: QWidget) -> QWidget:
    """Returns a setting's row: its label with its unit, its fields, and its explanation."""
    units = [label(tr(setting.unit), "caption")] if setting.unit else []
    heading = row_of((label(tr(setting.label), "setting", wrap=True), 1), *units)
    return _boxed(heading, *fields, label(tr(setting.explanation), "caption", wrap=True))


def _boxed(*parts: Part) -> QWidget:
    return boxed(column_of(*parts, margins=(0, 16, 0, 0), spacing=4))
