"""The choice of lanes: a row of fields for each lane."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.bridge.background import Background
from app.context import AppContext
from app.design.controls import ChoiceBox, button, introduce, label
from app.design.layouts import STRETCH, column_of, row_of
from app.settings.values import decoder_title
from app.state.adapters import adapters_for, title_of_adapter, with_adapter
from app.state.race.prompts import LaneSpec, usual_lanes
from app.system.i18n import tr
from engine.catalog import SMALL, installed
from engine.service import is_remote
from engine.service.requests import FEWEST_LANES, MAX_LANES

Entry = tuple[str, str]
"""A value and its title."""


class LaneRow(QWidget):
    """The fields of one lane; ``changed`` is emitted after the user's edits."""

    changed = Signal(object)  # a LaneSpec

    def __init__(self, place: int) -> None:
        super().__init__()
        name = tr("Lane {number}", number=place + 1)
        self._lane = LaneSpec("")
        self.model = _chooser(tr("{lane}: model", lane=name))
        self.decoder = _chooser(tr("{lane}: decoding", lane=name))
        self.adapter = _chooser(tr("{lane}: adapter", lane=name))
        self.remove = button("✕", tr("Remove {lane}", lane=name))
        parts = (label(str(place + 1), "caption"), self.model, self.decoder, self.adapter, self.remove, STRETCH)
        self.setLayout(row_of(*parts, spacing=8))
        for box in (self.model, self.decoder, self.adapter):
            box.activated.connect(self._choose)

    def show_lane(self, lane: LaneSpec, models: Sequence[Entry], decoders: Sequence[str]) -> None:
        """Shows a lane, with the models and the decoders to choose from, none while those are not known."""
        self._lane = lane
        _offer(self.model, models, lane.model)
        named = [(name, decoder_title(name)) for name in decoders]
        _offer(self.decoder, named, lane.decoder or next(iter(decoders), ""))
        self.decoder.setVisible(bool(decoders))
        adapters = [("", tr("No adapter")), *((name, title_of_adapter(name)) for name in adapters_for(lane.model))]
        _offer(self.adapter, adapters, lane.adapter)
        self.adapter.setVisible(self.adapter.count() > 1)

    @Slot()
    def _choose(self) -> None:
        chosen = self.sender()
        if chosen is self.model:
            self.changed.emit(LaneSpec(self.model.currentData()))  # what was chosen for another one is not kept
        elif chosen is self.decoder:
            self.changed.emit(replace(self._lane, decoder=self.decoder.currentData()))
        else:
            self.changed.emit(replace(self._lane, adapter=self.adapter.currentData()))


class LaneChooser(QWidget):
    """Two to four lanes. ``problem`` says why they cannot race."""

    changed = Signal()  # other lanes
    found = Signal()  # another model was read

    def __init__(self, context: AppContext) -> None:
        super().__init__(accessibleName=tr("Lanes"))
        self._context = context
        self._is_busy = False
        self._known: dict[
            str, tuple[str, ...] | str
        ] = {}  # decoders by model, the default first, or why there are none
        self._wanted: list[str] = []  # models that are not read yet; the first is being read
        self._reading = Background(self, self._note_decoders, self._note_decoders)
        self.specs = usual_lanes()
        self.rows = [LaneRow(place) for place in range(MAX_LANES)]
        self.add = button(tr("+ Lane"), tr("Add a lane"), role="chip", clicked=self._add)
        self.note = label("", "caption", wrap=True)
        foot = row_of(self.add, (self.note, 1), spacing=16)
        self.setLayout(column_of(*self.rows, foot, spacing=4))
        for place, row in enumerate(self.rows):
            row.changed.connect(functools.partial(self.change, place))
            row.remove.clicked.connect(functools.partial(self._remove, place))
        context.slot.changed.connect(self.refresh)
        context.slot.models_changed.connect(self._read_anew)
        self.refresh()

    def change(self, place: int, lane: LaneSpec) -> None:
        self.set_all((*self.specs[:place], lane, *self.specs[place + 1 :]))

    def set_all(self, specs: tuple[LaneSpec, ...]) -> None:
        if specs != self.specs:
            self.specs = specs
            self.refresh()
            self.changed.emit()

    def tab_stops(self) -> list[QWidget]:
        boxes = [part for row in self.rows for part in (row.model, row.decoder, row.adapter, row.remove)]
        return [*boxes, self.add]

    @property
    def titles(self) -> list[str]:
        """The lanes' titles: model, adapter and decoder."""
        return [self.title(lane) for lane in self.specs]

    def title(self, lane: LaneSpec) -> str:
        """Returns a lane's title, with its model's default decoder once that is known."""
        model = self._context.slot.title_of(lane.model)
        who = with_adapter(model, title_of_adapter(lane.adapter) if lane.adapter else "")
        name = lane.decoder or next(iter(self._decoders(lane.model)), "")
        return tr("{model} · {decoder}", model=who, decoder=decoder_title(name)) if name else who

    @property
    def problem(self) -> str:
        """Why the lanes cannot race, as a sentence; empty if they can."""
        for place, lane in enumerate(self.specs):
            if lane in self.specs[:place]:
                return tr(
                    "Lanes {one} and {other} are the same. Give one of them another model or decoding.",
                    one=self.specs.index(lane) + 1,
                    other=place + 1,
                )
            known = self._known.get(lane.model, ())
            if isinstance(known, str):
                return tr("Lane {lane}: {problem}", lane=place + 1, problem=known)
        return ""

    def _models(self) -> list[Entry]:
        """Returns path and title of the models that may race: single ones on this machine."""
        here = [known.id for known in installed() if known.folder.exists()]
        paths = dict.fromkeys((*here, *(path for path, _ in self._context.slot.models)))
        return [(path, self._context.slot.title_of(path)) for path in paths if path != SMALL and not is_remote(path)]

    def _decoders(self, model: str) -> tuple[str, ...]:
        """Returns a model's decoders; none while its files are being read, or if they cannot be."""
        loaded = self._context.model
        if loaded is not None and loaded.path_or_id == model:
            return loaded.decoders
        if model not in self._known and model not in self._wanted:
            self._wanted.append(model)
            if len(self._wanted) == 1:
                self._read()
        known = self._known.get(model, ())
        return () if isinstance(known, str) else known

    def _read(self) -> None:
        model = self._wanted[0]
        self._reading.ask(lambda: _decoders_of(model))

    @Slot(object)
    @Slot(str)
    def _note_decoders(self, decoders: tuple[str, ...] | str) -> None:
        self._known[self._wanted.pop(0)] = decoders
        if self._wanted:
            self._read()
        self.refresh()
        self.found.emit()

    @Slot()
    def _read_anew(self) -> None:
        self._known.clear()
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Shows the lanes with the facts that are known now."""
        models = self._models()
        for row, lane in zip(self.rows, self.specs, strict=False):
            row.show_lane(lane, models, self._decoders(lane.model))
        for place, row in enumerate(self.rows):
            row.setVisible(place < len(self.specs))
            row.setEnabled(not self._is_busy)
            row.remove.setVisible(len(self.specs) > FEWEST_LANES)
        self.add.setVisible(len(self.specs) < MAX_LANES)
        last = self.specs[-1].model
        is_read = bool(self._decoders(last)) or last in self._known  # or why there are none
        self.add.setEnabled(not self._is_busy and is_read)
        self.note.setText(self.problem)

    def set_busy(self, is_busy: bool) -> None:
        """Disables changes to the lanes while a race is running."""
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            self.refresh()

    @Slot()
    def _add(self) -> None:
        """Adds a lane unlike the others: the last one with its model's next decoder, or another model."""
        last, known = self.specs[-1], {lane.model for lane in self.specs}
        decoders = self._decoders(last.model)
        used = {lane.decoder or next(iter(decoders), "") for lane in self.specs if lane.model == last.model}
        unused = (LaneSpec(last.model, name, adapter=last.adapter) for name in decoders if name not in used)
        others = (LaneSpec(path) for path, _ in self._models() if path not in known)
        self.set_all((*self.specs, next(unused, None) or next(others, last)))

    def _remove(self, place: int) -> None:
        self.set_all((*self.specs[:place], *self.specs[place + 1 :]))


def _decoders_of(model: str) -> tuple[str, ...]:
    """Reads a model's decoders from its files.

    Raises:
        SafelightError: The model cannot be read.
    """
    from engine import run_settings  # imports torch

    return run_settings(model).decoders


def _chooser(name: str) -> ChoiceBox:
    box = introduce(ChoiceBox(), name)
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
