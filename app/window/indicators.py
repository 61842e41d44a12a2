"""Updates the window's edges: the model and its load progress, memory, unsaved changes."""

from __future__ import annotations

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QProgressBar

from app.bridge.remote_access import only_text
from app.context import AppContext
from app.design import motion
from app.server.words import status_text
from app.session.session import title_of
from app.settings.strip import SettingsStrip
from app.system.i18n import tr, trn
from app.window.statusbar import StatusBar
from app.window.topbar import TopBar
from engine.service import MemoryUsed, ServiceReply, is_remote


class Indicators(QObject):
    """Updates a top bar, a strip of settings, a status bar and ``progress``."""

    def __init__(self, context: AppContext, topbar: TopBar, strip: SettingsStrip, status: StatusBar) -> None:
        super().__init__()
        self._context, self._topbar, self._strip, self._status = context, topbar, strip, status
        self.progress = QProgressBar(textVisible=False)
        self.progress.setAccessibleName(tr("Loading the model"))
        context.slot.changed.connect(self.show_model)
        context.busy_changed.connect(self._show_progress)
        context.settings_changed.connect(strip.refresh)
        context.slot.models_changed.connect(self._offer_models)
        context.offline_changed.connect(self._show_offline)
        context.server.changed.connect(self._show_server)
        context.server.requests_changed.connect(self._show_server)
        context.backend.pacing.noted.connect(self._note)
        context.session.saving.problem_changed.connect(status.show_unsaved)
        self.show_model()
        self._show_progress()
        self._show_offline()

    @Slot()
    def show_model(self) -> None:
        """Shows which model is loaded or being loaded."""
        model, loading = self._context.model, self._context.loading
        if model is not None:
            self._topbar.chooser.show_model(model.path_or_id, model.title)
            size = parameters(model.parameter_count) if model.parameter_count else ""
            where = tr("remote") if is_remote(model.path_or_id) else model.device.upper()
            untried = tr("experimental") if model.is_news and model.device != "cpu" else ""
            text_alone = tr("text only") if only_text(model) else ""
            facts = (size, where, untried, text_alone, model.adapter_title)
            self._topbar.facts.setText(" · ".join(filter(None, facts)))
            self._strip.show_values(model.defaults)
            self._strip.allow(model.settings, only_text(model))
            self._status.show_model(title_of(model), model.device, model.threads, model.device_reason, model.kernels)
            return
        self._topbar.chooser.show_model(*(("", "") if loading is None else (loading.path_or_id, loading.title)))
        self._topbar.facts.clear()
        self._status.show_model(None)

    @Slot()
    def _show_progress(self) -> None:
        loading = self._context.loading
        self.progress.setVisible(loading is not None)
        if loading is not None:
            unknown = loading.share == 0.0 and not motion.is_reduced()
            self.progress.setRange(0, 0 if unknown else 100)  # an empty range: indeterminate progress
            self.progress.setValue(round(100 * loading.share))

    @Slot()
    def _offer_models(self) -> None:
        self._topbar.chooser.offer_models(self._context.slot.models)

    @Slot()
    def _show_offline(self) -> None:
        self._status.show_offline(self._context.preferences.offline)

    @Slot()
    def _show_server(self) -> None:
        server = self._context.server
        self._status.show_server(status_text(server.unfinished) if server.is_on else "")

    @Slot(object)
    def _note(self, reply: ServiceReply) -> None:
        if isinstance(reply, MemoryUsed):
            self._status.show_memory(reply.used, reply.total)


def parameters(number: int) -> str:
    """Returns a parameter count in short form, such as "2.6 B parameters"."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return tr("{number} parameters", number=f"{number / size:.1f} {unit}")
    return trn("{count} parameter", "{count} parameters", number)
