"""Keeps the chosen lanes, and stores them between two starts of the app. Has no widgets."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.context import AppContext
from app.race.store import read_lanes, write_lanes
from app.state.race.lanes import LaneSpec, usual_lanes
from app.system.i18n import tr
from engine import SafelightError
from engine.service.requests import FEWEST_LANES, MOST_LANES

SAVE_MS = 500  # after the last change


class LaneStore(QObject):
    """Two to four lanes. ``changed`` is emitted after each change."""

    changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.specs = read_lanes(context.folders.data) or usual_lanes()
        self._is_written = True
        self._saving = QTimer(self)
        self._saving.setSingleShot(True)
        self._saving.setInterval(SAVE_MS)
        self._saving.timeout.connect(self.remember)
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
        self._set((*self.specs[:place], lane, *self.specs[place + 1 :]))

    def duplicate(self, place: int) -> None:
        """Inserts a copy of a lane after it, if there is room for one more."""
        if self.can_add:
            self._set((*self.specs[: place + 1], *self.specs[place:]))

    def remove(self, place: int) -> None:
        """Removes a lane, if enough remain."""
        if self.can_remove:
            self._set((*self.specs[:place], *self.specs[place + 1 :]))

    def _set(self, specs: tuple[LaneSpec, ...]) -> None:
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
