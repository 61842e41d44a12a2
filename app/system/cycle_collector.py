"""Runs Python's cycle collector in the GUI thread only.

By default it runs in any thread that allocates, also the engine's; a Qt object in a cycle would be destroyed in the
wrong thread, which crashes the program.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, Slot

from app.system.timers import every

PERIOD_MS = 1000
FULL_EVERY = 30  # periods


class CycleCollector(QObject):
    """Collects once a second; ``close`` restores Python's automatic collection."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._periods = 0
        gc.disable()
        self._timer = every(self, self._collect, PERIOD_MS)
        self._timer.start()

    def close(self) -> None:
        self._timer.stop()
        gc.enable()

    @Slot()
    def _collect(self) -> None:
        self._periods += 1
        gc.collect(2 if self._periods % FULL_EVERY == 0 else 1)
