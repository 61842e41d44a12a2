"""The sampler's strip next to the conversation: widgets derived from the declarations in ``app.settings.spec``."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from app.design import themes
from app.design.choice_box import ChoiceBox
from app.design.controls import Hairline, button, label
from app.design.fonts import px
from app.design.layouts import boxed, column_of, row_of
from app.settings.decoding_fields import DecodingFields
from app.settings.fields import NumberBox, SeedBox, choice_box, flag_box, number_box, number_in, put_number
from app.settings.spec import (
    LAYER,
    PACE,
    REDUCED_MOTION,
    REDUCED_MOTION_EXPLANATION,
    SAMPLER,
    SEED,
    VIEW,
    Choice,
    Setting,
)
from app.settings.values import SettingsValues
from app.system.i18n import tr
from engine import GenerationConfig

WIDTH, MOST_WIDTH = 312, 440  # pixels; the width scales with the text size


class SettingsStrip(QWidget):
    """Edits a ``SettingsValues`` in place and emits ``changed``."""

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
        self.boxes: dict[str, NumberBox] = {}
        self._inside = QWidget()

        self.reset = button(
            tr("Reset to the model's defaults"), tip=tr("Takes every number below from the loaded model")
        )
        self.reset.clicked.connect(self._reset)
        self.problem = label("", "error", wrap=True)
        self.problem.setAccessibleName(tr("Problem with the settings"))
        self.problem.hide()
        self.refusal = label("", "remark", wrap=True)
        self.refusal.setAccessibleName(tr("Why settings are not offered"))
        self.refusal.hide()
        self._column = column_of(
            label(tr("Sampler"), "title"), self.reset, self.problem, self.refusal, margins=(20, 20, 20, 24), spacing=4
        )
        self._inside.setLayout(self._column)
        self._rows: dict[str, QWidget] = {}  # the row of each number, by name
        self.decoding = DecodingFields(offers_own=False)
        self.decoding.setContentsMargins(0, 16, 0, 0)
        self._column.addWidget(self.decoding)
        self._add_settings()
        scroll = self._scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setAccessibleName(tr("Sampler"))
        self.setLayout(row_of(Hairline(Qt.Orientation.Vertical), (scroll, 1), spacing=0))
        self.show_values(self._defaults)

    def _add_settings(self) -> None:
        for setting in SAMPLER:
            self.boxes[setting.name] = self._add_number(setting)
        self.seed = SeedBox()
        self.random_seed = flag_box(
            "random_seed", "Random for each answer", "Draws a new seed for each answer; the answer tells which."
        )
        self.random_seed.setAccessibleName(tr("Random seed for each answer"))
        self._add(SEED.label, SEED.explanation, self.random_seed, self.seed)
        self._column.addSpacing(16)
        self._column.addWidget(Hairline())
        self.view = self._add_choice(VIEW)
        self.layer = self._add_choice(LAYER)
        self.pace = self._add_choice(PACE)
        self.reduced_motion = flag_box("reduced_motion", REDUCED_MOTION, REDUCED_MOTION_EXPLANATION)
        self._add("", REDUCED_MOTION_EXPLANATION, self.reduced_motion)
        self._column.addStretch(1)
        for box in (*self.boxes.values(), self.seed):
            box.valueChanged.connect(self._take)
        for switch in (self.random_seed, self.reduced_motion):
            switch.toggled.connect(self._take)
        self.decoding.changed.connect(self._take)
        for choice in (self.view, self.layer, self.pace):
            choice.currentIndexChanged.connect(self._take)

    def setVisible(self, visible: bool) -> None:
        if visible and self._scroll.widget() is None:  # measuring so many fields would slow down the window's start
            self._scroll.setWidget(self._inside)
        super().setVisible(visible)

    def _add(self, title: str, explanation: str, *widgets: QWidget, unit: str = "") -> QWidget:
        """Adds a setting in a row of its own and returns the row."""
        units = [label(tr(unit), "caption")] if unit else []
        heading = [row_of((label(tr(title), "setting", wrap=True), 1), *units)] if title else []
        captions = [label(tr(explanation), "caption", wrap=True)] if explanation else []
        made = boxed(column_of(*heading, *widgets, *captions, margins=(0, 16, 0, 0), spacing=4))
        self._column.addWidget(made)
        return made

    def _add_number(self, setting: Setting) -> NumberBox:
        box = number_box(setting)
        self._rows[setting.name] = self._add(setting.label, setting.explanation, box, unit=setting.unit)
        return box

    def _add_choice(self, choice: Choice) -> ChoiceBox:
        box = choice_box(choice)
        self._add(choice.label, choice.explanation, box)
        return box

    @Slot()
    def _fit(self) -> None:
        self.setFixedWidth(min(px(WIDTH), MOST_WIDTH))

    def show_setting(self, name: str) -> None:
        """Focuses a setting of the sampler, by its name."""
        box = self.boxes.get(name) or (self.seed if self.seed.isEnabled() else self.random_seed)
        self._scroll.ensureWidgetVisible(box)
        box.setFocus()

    def show_values(self, defaults: GenerationConfig) -> None:
        """Shows the values over a model's defaults."""
        self._defaults = defaults
        self._filling = True
        self.decoding.show_choice(self._values.decoding, self._values.decoders)
        for setting in SAMPLER:
            put_number(self.boxes[setting.name], self._values.value(setting.name, defaults))
        self.random_seed.setChecked(self._values.seed is None)
        self.seed.setValue(self._values.seed or 0)
        self.view.setCurrentIndex(self.view.findData("calm" if self._values.calm else "raw"))
        self.layer.setCurrentIndex(self.layer.findData(self._values.layer))
        self.pace.setCurrentIndex(self.pace.findData(self._values.pace))
        self.reduced_motion.setChecked(self._values.reduced_motion)
        self._filling = False
        self._show_state()

    def allow(self, names: frozenset[str] | None, reason: str = "") -> None:
        """Offers only these settings of the sampler, and "seed" if it is named; None offers all. ``reason`` says why
        not the others.

        Settings without effect in the present decoding are hidden, too.
        """
        self._allowed = names
        for field in (self.seed, self.random_seed):
            field.setEnabled(names is None or SEED.name in names)
        self.refusal.setText(reason)
        self.refusal.setVisible(bool(reason))
        self._show_state()

    @Slot()
    def refresh(self) -> None:
        """Shows the present values after a change elsewhere."""
        if not self._filling:
            self.show_values(self._defaults)

    def _show_state(self) -> None:
        self.seed.setVisible(not self.random_seed.isChecked())
        own = self._values.present_decoding.settings
        for name, row in self._rows.items():
            row.setVisible(name in own and (self._allowed is None or name in self._allowed))
        problem = self._values.problem(self._defaults)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        values = self._values
        self.reset.setEnabled(bool(values.overrides) or values.seed is not None or bool(values.decoding.changes))

    @Slot()
    def _take(self) -> None:
        if self._filling:
            return
        for setting in SAMPLER:
            before = self._values.value(setting.name, self._defaults)
            if (shown := number_in(self.boxes[setting.name], setting, before)) != before:
                self._values.set(setting.name, shown, self._defaults)
        self._values.decoding = self.decoding.choice
        self._values.seed = None if self.random_seed.isChecked() else self.seed.value()
        self._values.calm = self.view.currentData() == "calm"
        self._values.layer = self.layer.currentData()
        self._values.pace = self.pace.currentData()
        self._values.reduced_motion = self.reduced_motion.isChecked()
        self._show_state()
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
