"""The fields of one lane: its model, decoder, adapter, and the settings that differ from its model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QEvent, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import FlowLayout, button, flow_of, label
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.race.lanes.facts import ModelFacts
from app.settings.decoders import DecodingChoice
from app.settings.decoding_fields import DecodingFields
from app.settings.fields import NumberBox, flag_box, number_box, number_in, put_number, start_number
from app.settings.spec import DECODER, SAMPLER, Setting
from app.state.race.lanes import LaneSpec
from app.system.i18n import tr
from engine import GenerationConfig
from engine.catalog import is_embedded

OPEN_FOLDER = "\0"  # value of the adapter list's last entry
SETTING_WIDTH, BOX = 304, 96  # pixels at 100 %
Entry = tuple[str, str]
"""A value and its title."""


class LaneEditor(QWidget):
    """The fields. ``changed`` is emitted after the user's edits only, not by ``show_lane``."""

    changed = Signal(object)  # a LaneSpec
    folder_asked = Signal()  # for an adapter

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Fields of the lane"))
        self._lane = LaneSpec("")
        self._defaults = GenerationConfig()
        self._decoders: tuple[str, ...] = ()  # of the model, its default first
        self._filling = False
        self.model = _chooser(tr("Model"))
        self.decoding = DecodingFields()
        self.adapter = _chooser(tr("Adapter"))
        self.ticks: dict[str, QCheckBox] = {}
        self.boxes: dict[str, NumberBox] = {}
        self._cells: dict[str, QWidget] = {}
        self.problem = label("", "error", wrap=True)
        self.duplicate = button(tr("Duplicate"), tr("Duplicate this lane"))
        self.remove = button(tr("Remove"), tr("Remove this lane"))
        self.close_button = button(tr("Done"), tr("Close the fields of the lane"), role="plain")
        self._lay_out()
        self._fit()
        self.model.activated.connect(self._choose_model)
        self.decoding.changed.connect(self._edit)
        self.adapter.activated.connect(self._choose_adapter)

    def _lay_out(self) -> None:
        choices = QWidget()
        flow = FlowLayout(choices, 16, 8)
        for title, box in ((tr("Model"), self.model), (tr("Adapter"), self.adapter)):
            flow.addWidget(boxed(column_of(label(title, "setting"), box, spacing=4)))
        settings = flow_of(*map(self._add_setting, SAMPLER), gap=24, row_gap=4)
        last = row_of(self.duplicate, self.remove, STRETCH, self.close_button, spacing=16)
        self.setLayout(
            column_of(
                choices,
                self.decoding,
                label(tr("Unticked: the model's default."), "caption", wrap=True),
                settings,
                self.problem,
                last,
                margins=(16, 12, 16, 12),
                spacing=8,
            )
        )

    def tab_stops(self) -> list[QWidget]:
        """Returns the widgets of the Tab order."""
        own = self.decoding
        choices = (self.model, self.adapter, own.decoder, own.token_thoughts, own.acceptance)
        settings = (part for name in self.ticks for part in (self.ticks[name], self.boxes[name]))
        return [*choices, *settings, self.duplicate, self.remove, self.close_button]

    def _add_setting(self, setting: Setting) -> QWidget:
        tick, box = flag_box(f"own_{setting.name}", setting.label, setting.explanation), number_box(setting)
        tick.setAccessibleName(tr("Set {setting}", setting=tr(setting.label)))
        tick.toggled.connect(self._tick)
        box.valueChanged.connect(self._edit)
        cell = boxed(row_of((tick, 1), box, spacing=4))
        self.ticks[setting.name], self.boxes[setting.name], self._cells[setting.name] = tick, box, cell
        return cell

    def _fit(self) -> None:
        """Sets the widths, so that settings stand in columns at any text size."""
        for name, cell in self._cells.items():
            self.boxes[name].setFixedWidth(px(BOX))
            cell.setFixedWidth(px(SETTING_WIDTH))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def show_lane(
        self,
        lane: LaneSpec,
        models: Sequence[Entry],
        adapters: Sequence[Entry],
        facts: ModelFacts,
        problem: str,
    ) -> None:
        """Shows a lane, with the models and adapters to choose from.

        Args:
            facts: About its model; without decoders while they are not known. How thoughts are written is shown for
                models that may think, or where it is set.
            problem: What is wrong with the lane, as a sentence.
        """
        self._filling = True
        decoders, defaults = facts.decoders, facts.defaults
        self._lane, self._defaults, self._decoders = lane, defaults, decoders
        choice = self._fitting(DecodingChoice.read({**lane.changes, "decoder": lane.decoder}))
        _offer(self.model, models, lane.model)
        _offer(self.adapter, [("", tr("None")), *adapters, (OPEN_FOLDER, tr("Open a folder…"))], lane.adapter)
        self.decoding.offer(thinks=not is_embedded(lane.model))
        self.decoding.show_choice(choice, decoders or (lane.decoder,))
        shown = choice.settings
        for setting in SAMPLER:
            is_own = setting.name in lane.changes
            self._cells[setting.name].setVisible(setting.name in shown)
            self.ticks[setting.name].setChecked(is_own)
            self.boxes[setting.name].setEnabled(is_own)
            put_number(self.boxes[setting.name], lane.changes.get(setting.name, getattr(defaults, setting.name)))
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self._filling = False

    def allow(self, *, can_add: bool, can_remove: bool) -> None:
        """Enables Duplicate and Remove."""
        self.duplicate.setEnabled(can_add)
        self.remove.setEnabled(can_remove)

    @Slot()
    def _choose_model(self) -> None:
        """Changes the model, and resets decoder, adapter and settings to that model's defaults."""
        model = self.model.currentData()
        if model != self._lane.model:
            self.changed.emit(LaneSpec(model))

    @Slot()
    def _choose_adapter(self) -> None:
        chosen = self.adapter.currentData()
        if chosen == OPEN_FOLDER:
            self.adapter.setCurrentIndex(self.adapter.findData(self._lane.adapter))
            self.folder_asked.emit()
        else:
            self.changed.emit(replace(self._lane, adapter=chosen))

    @Slot(bool)
    def _tick(self, is_own: bool) -> None:
        if self._filling:
            return
        name = self.sender().objectName().removeprefix("own_")
        self.boxes[name].setEnabled(is_own)
        if is_own:
            self._filling = True
            start_number(self.boxes[name])
            self._filling = False
        self._edit()

    @Slot()
    def _edit(self) -> None:
        if self._filling:
            return
        choice = self._fitting(self.decoding.choice)
        changes: dict[str, Any] = choice.changes
        decoder, shown = changes.pop(DECODER.name, ""), choice.settings
        for setting in SAMPLER:
            if self.ticks[setting.name].isChecked() and setting.name in shown:
                value = number_in(self.boxes[setting.name], setting, self._lane.changes.get(setting.name))
                if value is not None:
                    changes[setting.name] = value
        self.changed.emit(replace(self._lane, decoder=decoder, changes=changes))

    def _fitting(self, choice: DecodingChoice) -> DecodingChoice:
        """Returns the choice limited to the model's decoders; unchanged while those are not known."""
        return choice.among(self._decoders) if self._decoders else choice


def _chooser(name: str) -> ChoiceBox:
    box = ChoiceBox()
    box.setAccessibleName(name)
    box.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
    return box


def _offer(box: ChoiceBox, entries: Sequence[Entry], chosen: str) -> None:
    """Fills a box with the entries, and with ``chosen`` if it is none of them."""
    wanted = [*entries] if any(value == chosen for value, _ in entries) else [(chosen, chosen), *entries]
    if [(box.itemData(place), box.itemText(place)) for place in range(box.count())] != wanted:
        box.clear()
        for value, title in wanted:
            box.addItem(title, value)
    box.setCurrentIndex(box.findData(chosen))
