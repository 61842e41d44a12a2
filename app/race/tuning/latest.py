"""Reads the latest result of a tuning for its tab, and applies its choice to the user's settings."""

from __future__ import annotations

import copy
import functools

from PySide6.QtCore import QObject, Slot

from app.bridge.background import Background
from app.context import AppContext
from app.presets.tuned import apply_tuned
from app.race.tuning import words
from app.race.tuning.view import TuningView
from app.settings.values import SettingsValues
from app.state.tuning.result import TuningResult, latest_result, read_result
from app.system.i18n import tr
from engine.config import BLOCK_DIFFUSION


class LatestTuning(QObject):
    """Connects the Tuning tab to the user's data folder and settings."""

    def __init__(self, context: AppContext, view: TuningView, parent: QObject) -> None:
        super().__init__(parent)
        self._context, self._view = context, view
        self.result: TuningResult | None = None
        self._reading = Background(self, self._take, view.show_problem)
        view.shown.connect(self.read)
        view.use_asked.connect(self.use)
        context.model_changed.connect(self.refresh)
        context.settings_changed.connect(self.refresh)

    @property
    def is_reading(self) -> bool:
        return self._reading.is_busy

    @Slot()
    def read(self) -> None:
        """Reads the latest result in a thread, and shows it."""
        folder = self._context.folders.data

        def latest() -> TuningResult | None:
            path = latest_result(folder)
            return None if path is None else read_result(path)

        self._reading.ask(latest)

    @Slot(object)
    def _take(self, result: TuningResult | None) -> None:
        self.result = result
        self._view.show_result(result)
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates the button after a change of model or settings."""
        result = self.result
        if result is None:
            return
        values, reason = self._context.values, ""
        decoding = values.present_decoding
        if values.decoders and BLOCK_DIFFUSION not in values.decoders:
            reason = tr("The loaded model does not write by block diffusion, so it has no such rules.")
        elif decoding.decoder not in ("", BLOCK_DIFFUSION) or not decoding.denoises:
            reason = tr("Your answers are not written by block diffusion now. Choose it as decoding first.")
        can_use = result.chosen is not result.usual and result.is_finished
        self._view.show_use(can_use=can_use and not reason, reason=reason)

    @Slot()
    def use(self) -> None:
        """Uses the chosen setting for all runs from now on."""
        if self.result is None:
            return
        before = copy.deepcopy(self._context.values)
        apply_tuned(self._context.values, self.result)
        self._context.apply_values()
        said = tr("Set: {rule}", rule=words.rule_title(self.result.chosen))
        self._context.done.emit(said, tr("Restore mine"), functools.partial(self._put_back, before))

    def _put_back(self, before: SettingsValues) -> None:
        values = self._context.values
        values.overrides, values.decoding = before.overrides, before.decoding
        self._context.apply_values()
