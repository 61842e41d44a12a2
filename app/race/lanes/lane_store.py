"""Keeps the chosen lanes, and stores them between two starts of the app. Has no widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from app.context import AppContext
from app.settings.decoders import DecodingChoice
from app.settings.spec import SAMPLER
from app.state.race.lanes import LaneSpec, usual_lanes
from app.system.folders import ensure
from app.system.i18n import tr
from app.system.timers import later
from engine import SafelightError
from engine.config import is_decoder
from engine.files import read_json, write_json
from engine.service import is_remote
from engine.service.requests import FEWEST_LANES, MOST_LANES

NAME = "race.json"
FILE_BYTES = 2**16
LONGEST = 4096  # characters of a path


def read_lanes(folder: Path) -> tuple[LaneSpec, ...]:
    """Returns the stored lanes; an empty tuple if the file is missing or cannot be read."""
    path = folder / NAME
    if not path.is_file():
        return ()
    try:
        raw = read_json(path, most=FILE_BYTES)
    except SafelightError:
        return ()
    lanes = raw.get("lanes")
    found = [_lane(one) for one in lanes[:MOST_LANES]] if isinstance(lanes, list) else []
    known = tuple(lane for lane in found if lane is not None)
    return known if len(known) >= FEWEST_LANES else ()


def write_lanes(folder: Path, lanes: Sequence[LaneSpec]) -> None:
    """Replaces the stored lanes.

    Raises:
        SafelightError: The folder or the file cannot be written.
    """
    said = [
        {"model": lane.model, "decoder": lane.decoder, "adapter": lane.adapter, "settings": dict(lane.changes)}
        for lane in lanes
    ]
    write_json(ensure(folder) / NAME, {"lanes": said})


def _lane(raw: Any) -> LaneSpec | None:
    if not isinstance(raw, Mapping):
        return None
    model, adapter = _name(raw.get("model")), _name(raw.get("adapter"))
    if not model or is_remote(model):
        return None
    decoder, settings = raw.get("decoder"), raw.get("settings")
    changes = _changes(settings) if isinstance(settings, Mapping) else {}
    return LaneSpec(model, decoder if isinstance(decoder, str) and is_decoder(decoder) else "", changes, adapter)


def _name(raw: Any) -> str:
    return raw if isinstance(raw, str) and len(raw) <= LONGEST and "\0" not in raw else ""


def _changes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the known settings whose values are within their bounds."""
    found: dict[str, Any] = replace(DecodingChoice.read(raw), decoder="").changes
    for setting in SAMPLER:
        value = raw.get(setting.name)
        if isinstance(value, bool) or not isinstance(value, int if setting.is_whole else int | float):
            continue
        if setting.low <= value <= setting.high:
            found[setting.name] = value
    return found


SAVE_MS = 500  # after the last change


class LaneStore(QObject):
    """Two to four lanes. ``changed`` is emitted after each change."""

    changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.specs = read_lanes(context.folders.data) or usual_lanes()
        self._is_written = True
        self._saving = later(self, self.remember, SAVE_MS)
        context.at_end(self.remember)

    @property
    def can_add(self) -> bool:
        return len(self.specs) < MOST_LANES

    @property
    def can_remove(self) -> bool:
        return len(self.specs) > FEWEST_LANES

    @property
    def twins(self) -> tuple[int, int] | None:
        """The indices of two equal lanes; None if all differ."""
        for place, lane in enumerate(self.specs):
            if lane in self.specs[:place]:
                return self.specs.index(lane), place
        return None

    def change(self, place: int, lane: LaneSpec) -> None:
        """Replaces the lane at an index."""
        self.set_all((*self.specs[:place], lane, *self.specs[place + 1 :]))

    def duplicate(self, place: int) -> None:
        """Inserts a copy of a lane after it, if there is room for one more."""
        if self.can_add:
            self.set_all((*self.specs[: place + 1], *self.specs[place:]))

    def add(self, lane: LaneSpec) -> None:
        """Appends a lane, if there is room for one more."""
        if self.can_add:
            self.set_all((*self.specs, lane))

    def remove(self, place: int) -> None:
        """Removes a lane, if enough remain."""
        if self.can_remove:
            self.set_all((*self.specs[:place], *self.specs[place + 1 :]))

    def set_all(self, specs: tuple[LaneSpec, ...]) -> None:
        """Replaces all lanes."""
        if specs != self.specs:
            self.specs = specs
            self._is_written = False
            self._saving.start()
            self.changed.emit()

    @Slot()
    def remember(self) -> None:
        """Writes the lanes to disk, if they have changed."""
        self._saving.stop()
        if self._is_written:
            return
        self._is_written = True
        try:
            write_lanes(self._context.folders.data, self.specs)
        except SafelightError as error:
            self._context.say(tr(str(error)))
