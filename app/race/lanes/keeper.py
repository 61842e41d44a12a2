"""The lanes that are chosen, remembered between two starts. Knows no widgets."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.context import AppContext
from app.race.store import read_lanes, write_lanes
from app.state.race.lanes import LaneSpec, usual_lanes
from app.system.i18n import tr
from engine import SafelightError
from engine.service.requests import FEWEST_LANES, MOST_LANES

SAVE_MS = 500  # after the last change


class LaneKeeper(QObject):
    """Two to four lanes; ``changed`` tells that they are others."""

    changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._specs = read_lanes(context.folders.data) or usual_lanes()
        self._is_written = True
        self._saving = QTimer(self)
        self._saving.setSingleShot(True)
        self._saving.setInterval(SAVE_MS)
        self._saving.timeout.connect(self.remember)
        context.at_end(self.remember)

    @property
    def specs(self) -> tuple[LaneSpec, ...]:
        return self._specs

    @property
    def can_add(self) -> bool:
        """Whether there may be one more."""
        return len(self._specs) < MOST_LANES

    @property
    def can_remove(self) -> bool:
        """Whether there may be one less."""
        return len(self._specs) > FEWEST_LANES

    @property
    def twins(self) -> tuple[int, int] | None:
        """Two lanes that are the same, from 0; None where all differ."""
        for place, lane in enumerate(self._specs):
            if lane in self._specs[:place]:
                return self._specs.index(lane), place
        return None

    def change(self, place: int, lane: LaneSpec) -> None:
        """Put another lane in place of one, from 0."""
        self._set((*self._specs[:place], lane, *self._specs[place + 1 :]))

    def duplicate(self, place: int) -> None:
        """Put a lane behind itself once more, to be changed."""
        if self.can_add:
            self._set((*self._specs[: place + 1], *self._specs[place:]))

    def remove(self, place: int) -> None:
        """Leave a lane out."""
        if self.can_remove:
            self._set((*self._specs[:place], *self._specs[place + 1 :]))

    def _set(self, specs: tuple[LaneSpec, ...]) -> None:
        if specs != self._specs:
            self._specs = specs
            self._is_written = False
            self._saving.start()
            self.changed.emit()

    @Slot()
    def remember(self) -> None:
        """Write the lanes down, if they have changed."""
        self._saving.stop()
        if self._is_written:
            return
        self._is_written = True
        try:
            write_lanes(self._context.folders.data, self._specs)
        except SafelightError as error:
            self._context.say(tr(str(error)))
