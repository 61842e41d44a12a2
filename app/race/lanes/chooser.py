"""The choice of lanes: the lanes' chips, and over the page the fields of one lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QDir, QEvent, QObject, QPoint, Signal, Slot
from PySide6.QtWidgets import QFileDialog, QPushButton, QWidget

from app.context import AppContext
from app.design.controls import FlowLayout, button, label, scroller
from app.design.layouts import column_of
from app.race import words
from app.race.lanes.editor import LaneEditor
from app.race.lanes.facts import FactBook, ModelFacts
from app.race.lanes.lane_store import LaneStore
from app.state.adapters import adapters_for, title_of_adapter
from app.state.race.lanes import LaneSpec
from app.system.i18n import tr
from engine import SafelightError, catalog
from engine.catalog import installed
from engine.service import is_remote
from engine.service.requests import FEWEST_LANES, MOST_LANES

GAP = 8


class LaneBar(QWidget):
    """The chips. The fields of a lane are open while its chip is checked."""

    chosen = Signal(int)  # lane index, -1 for none

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Lanes"))
        flow = FlowLayout(self, GAP)
        self.chips = [button("", role="chip") for _ in range(MOST_LANES)]
        for chip in self.chips:
            chip.setCheckable(True)
            chip.clicked.connect(self._press)
            flow.addWidget(chip)
        self.add = button(
            tr("+ Lane"),
            tr("Add a lane"),
            role="chip",
            tip=tr("A copy of the last lane, with the next decoding or another model"),
        )
        flow.addWidget(self.add)
        self.kinds = button(
            tr("One of each kind"),
            role="chip",
            tip=tr("A lane for each kind of model on this computer, diffusion models first, four at most"),
        )
        flow.addWidget(self.kinds)

    def show_lanes(self, titles: Sequence[str], tips: Sequence[str], chosen: int, *, can_add: bool) -> None:
        """Shows a chip for each title; ``chosen`` is the lane whose fields are open, -1 for none."""
        for chip in self.chips[len(titles) :]:
            chip.hide()
        for place, (chip, title, tip) in enumerate(zip(self.chips, titles, tips, strict=False)):
            chip.setText(tr("{number}  {title}", number=place + 1, title=title))
            chip.setAccessibleName(tr("Lane {number}: {title}", number=place + 1, title=title))
            chip.setToolTip(tip)
            chip.setAccessibleDescription(tip)
            chip.setChecked(place == chosen)
            chip.show()
        self.add.setVisible(can_add)
        self.updateGeometry()

    @Slot()
    def _press(self) -> None:
        chip = self.sender()
        assert isinstance(chip, QPushButton)
        self.chosen.emit(self.chips.index(chip) if chip.isChecked() else -1)


MARGIN = 16  # pixels


class LaneChooser(QWidget):
    """Shows and edits the lanes of a ``LaneStore``. ``problem`` says why they cannot race."""

    placed = Signal()  # the fields were opened or closed, or need another height

    def __init__(self, context: AppContext, store: LaneStore, facts: FactBook) -> None:
        super().__init__()
        self._context, self._store, self._facts = context, store, facts
        self._open = -1  # the lane whose fields are open
        self._folders: list[str] = []  # adapters that the user has opened
        self._is_busy = False
        self._wants_kinds = False  # once all models are read
        self.bar, self.editor = LaneBar(), LaneEditor()
        self.note = label("", "caption", wrap=True)
        self.fields = scroller(self.editor)  # the page lays them over the race
        self.fields.setProperty("role", "panel")
        self.fields.setParent(self)
        self.setLayout(column_of(self.bar, self.note, margins=(MARGIN, 12, MARGIN, 8), spacing=8))
        self.bar.chosen.connect(self.open)
        self.bar.add.clicked.connect(self._add)
        self.bar.kinds.clicked.connect(self._take_kinds)
        self.editor.changed.connect(self._change)
        self.editor.duplicate.clicked.connect(self._duplicate)
        self.editor.remove.clicked.connect(self._remove)
        self.editor.folder_asked.connect(self._ask_folder)
        self.editor.close_button.clicked.connect(self.close_fields)
        self.editor.installEventFilter(self)
        store.changed.connect(self.refresh)
        facts.found.connect(self.refresh)
        facts.found.connect(self._go_on_with_kinds)
        context.model_changed.connect(self.refresh)
        context.models_changed.connect(self._find_anew)
        self.refresh()

    @property
    def titles(self) -> list[str]:
        """The lanes' titles, in order."""
        return [self.title(lane) for lane in self._store.specs]

    @property
    def problem(self) -> str:
        """Why the lanes cannot race, as a sentence; empty if they can."""
        twins = self._store.twins
        if twins is not None:
            return tr(
                "Lanes {one} and {other} are the same. Give one of them another model, decoding or setting.",
                one=twins[0] + 1,
                other=twins[1] + 1,
            )
        problems = [(place, self._problem(lane)) for place, lane in enumerate(self._store.specs, start=1)]
        return next((tr("Lane {lane}: {problem}", lane=place, problem=why) for place, why in problems if why), "")

    def title(self, lane: LaneSpec) -> str:
        """Returns a lane's title, with its model's default decoder once that is known."""
        facts = self._facts.of(lane.model)
        own = next(iter(facts.decoders), "") if facts is not None else ""
        return words.lane_title(lane, self._context.title_of(lane.model), own)

    def _problem(self, lane: LaneSpec) -> str:
        """Returns what is wrong with a lane, as a sentence; empty if nothing is, or its model is not read yet."""
        facts = self._facts.of(lane.model)
        if facts is None or facts.problem:
            return "" if facts is None else facts.problem
        if lane.decoder and lane.decoder not in facts.decoders:
            return tr("{model} does not have this decoding.", model=self._context.title_of(lane.model))
        try:
            facts.defaults.replace(**lane.changes)
        except SafelightError as error:
            return tr(str(error))
        return ""

    @property
    def blind(self) -> str:
        """A sentence about the first lane whose model is known to take no pictures; empty if there is none."""
        known = [self._facts.of(lane.model) for lane in self._store.specs]
        blind = next((place for place, facts in enumerate(known, start=1) if facts is not None and not facts.sees), 0)
        return tr("Lane {lane} only reads text: it cannot answer about a picture.", lane=blind) if blind else ""

    def _models(self) -> list[tuple[str, str]]:
        """Returns path and title of the models that may race: those on this machine."""
        loaded = self._context.model
        here = [known.id for known in installed() if known.folder.exists()]
        others = [path for path, _ in self._context.models]
        found = dict.fromkeys((*here, *others, *([] if loaded is None else [loaded.path_or_id])))
        return [(path, self._context.title_of(path)) for path in found if not is_remote(path)]

    def _further_models(self) -> str:
        """Returns a sentence about the models that have to be loaded in addition to the loaded one."""
        loaded = self._context.model
        if loaded is None:
            return ""
        known = loaded.path_or_id, loaded.adapter or ""
        wanted = dict.fromkeys((lane.model, lane.adapter) for lane in self._store.specs)
        named = []
        for model, adapter in wanted:
            if (model, adapter) != known:
                facts = self._facts.of(model)
                title = words.lane_title(LaneSpec(model, adapter=adapter), self._context.title_of(model))
                named.append((title, 0 if facts is None else facts.bytes))
        return words.loaded_words(named)

    @Slot()
    def _find_anew(self) -> None:
        self._facts.forget()
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Shows the lanes with the facts that are known now."""
        specs = self._store.specs
        if self._open >= len(specs):
            self._open = -1
        tips = [words.settings_words(lane) for lane in specs]
        self.bar.show_lanes(self.titles, tips, self._open, can_add=self._store.can_add and not self._is_busy)
        if self._open >= 0:
            self._show_fields(specs[self._open])
        self.fields.setVisible(self._open >= 0)
        note = self.problem or self._further_models()
        self.note.setText(note)
        self.note.setVisible(bool(note))
        self.placed.emit()

    def place_fields(self, bottom: int) -> None:
        """Lays the fields over their parent, below the chips, down to at most ``bottom``; above that they scroll."""
        parent = self.fields.parentWidget() or self
        at = self.bar.mapTo(parent, QPoint(0, self.bar.height() + GAP))
        width = self.width() - 2 * MARGIN
        needed = self.editor.heightForWidth(width - self.fields.verticalScrollBar().sizeHint().width())
        around = 2 * self.fields.frameWidth()
        self.fields.setGeometry(at.x(), at.y(), width, min(needed + around, bottom - at.y()))
        self.fields.raise_()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Places the fields anew after a change of their layout."""
        if watched is self.editor and event.type() == QEvent.Type.LayoutRequest:
            self.placed.emit()
        return super().eventFilter(watched, event)

    def _show_fields(self, lane: LaneSpec) -> None:
        facts = self._facts.of(lane.model) or ModelFacts()
        fitting = dict.fromkeys((*adapters_for(lane.model), *self._folders, *([lane.adapter] if lane.adapter else [])))
        adapters = [(path, title_of_adapter(path)) for path in fitting]
        problem = self._problem(lane)
        self.editor.show_lane(lane, self._models(), adapters, facts, problem)
        self.editor.allow(can_add=self._store.can_add, can_remove=self._store.can_remove)

    def set_busy(self, is_busy: bool) -> None:
        """Disables changes to the lanes while a race is running."""
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            if is_busy:
                self._open = -1
            for chip in (*self.bar.chips, self.bar.kinds):
                chip.setEnabled(not is_busy)
            self.refresh()

    @Slot(int)
    def open(self, lane: int) -> None:
        """Opens the fields of a lane, by index; -1 closes them."""
        self._open = lane
        self.refresh()

    @property
    def is_open(self) -> bool:
        """True while the fields of a lane are open."""
        return self._open >= 0

    @Slot()
    def close_fields(self) -> None:
        """Closes the fields, and returns the focus to their lane's chip."""
        lane = self._open
        self.open(-1)
        self._focus(lane)

    def _focus(self, lane: int) -> None:
        self.bar.chips[lane].setFocus()

    @Slot()
    def _add(self) -> None:
        lane = self._next_lane()
        if lane in self._store.specs:
            self._open = len(self._store.specs)  # to be changed
        self._store.add(lane)
        if self.bar.add.isHidden():
            self._focus(len(self._store.specs) - 1)

    def _next_lane(self) -> LaneSpec:
        """Returns a lane unlike the others: the last one with its model's next decoder, or another model.

        A model that was taught the same comes first. Returns the last lane itself if there is neither.
        """
        specs, last = self._store.specs, self._store.specs[-1]
        facts = self._facts.of(last.model)
        decoders = () if facts is None else facts.decoders
        usual = next(iter(decoders), "")
        used = {one.decoder or usual for one in specs if (one.model, one.adapter) == (last.model, last.adapter)}
        unused = (LaneSpec(last.model, name, adapter=last.adapter) for name in decoders if name not in used)
        known = {one.model for one in specs}
        taught = catalog.traits(specs[0].model).taught
        others = [path for path, _ in self._models() if path not in known]
        others.sort(key=lambda path: catalog.traits(path).taught != taught)
        return next(unused, None) or (LaneSpec(others[0]) if others else last)

    @Slot()
    def _take_kinds(self) -> None:
        """Replaces the lanes by one for each kind of model, once all models are read."""
        facts = {path: self._facts.of(path) for path, _ in self._models()}
        self._wants_kinds = None in facts.values()
        if self._wants_kinds:
            return
        first = dict[tuple[object, ...], str]()
        for path, found in facts.items():
            if found is not None and found.decoders:
                first.setdefault(found.kind, path)
        diffusion_first = sorted(first.items(), key=lambda one: "autoregressive" in one[0])
        if len(first) >= FEWEST_LANES:
            self._store.set_all(tuple(LaneSpec(path) for _, path in diffusion_first[:MOST_LANES]))

    @Slot()
    def _go_on_with_kinds(self) -> None:
        if self._wants_kinds and not self._is_busy:
            self._take_kinds()

    @Slot()
    def _duplicate(self) -> None:
        self._open += 1
        self._store.duplicate(self._open - 1)

    @Slot()
    def _remove(self) -> None:
        place, self._open = self._open, -1
        self._store.remove(place)
        self._focus(max(0, place - 1))

    @Slot(object)
    def _change(self, lane: LaneSpec) -> None:
        self._store.change(self._open, lane)

    @Slot()
    def _ask_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.window(), tr("Open an adapter's folder"), QDir.homePath())
        if folder:
            self._folders.append(folder)
            self._store.change(self._open, replace(self._store.specs[self._open], adapter=folder))
