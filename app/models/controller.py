"""Connects the models page to the app: loading and unloading, and the state that the page shows."""

from __future__ import annotations

from PySide6.QtCore import QObject, Slot

from app.context import AppContext
from app.models.jobs import Jobs
from app.models.page import ModelsPage


class ModelsController(QObject):
    """Shows the models page and tracks the loaded model. Lists no models before ``list_models`` is called or the page
    is shown."""

    notice = None  # errors of the page's jobs are shown in it, other errors below it

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.jobs = Jobs(self)
        self.widget = self.page = page = ModelsPage(
            self.jobs, context.folders.models, context.settings, remote=context.remote
        )
        self.setParent(page)  # so that no signal arrives once the page is destroyed
        context.at_end(page.shutdown)
        page.load_asked.connect(context.load)
        page.unload_asked.connect(context.unload)
        page.models_changed.connect(context.offer_models)
        context.model_changed.connect(self._show_model)
        context.offline_changed.connect(self._show_offline)
        self._show_model()
        self._show_offline()

    def enter(self) -> None:
        """Refreshes when the page is shown."""
        self.page.refresh()
        self.page.setFocus()

    def list_models(self) -> None:
        """Offers the models on the disk to the other pages."""
        self.page.list_models()

    @Slot()
    def _show_model(self) -> None:
        model, loading = self._context.model, self._context.loading
        if model is not None:
            self.page.list_folder(model.path_or_id)
        self.page.show_loaded(
            None if model is None else model.path_or_id, None if loading is None else loading.path_or_id
        )

    @Slot()
    def _show_offline(self) -> None:
        self.page.set_offline(self._context.preferences.offline)


def build(context: AppContext) -> ModelsController:
    """Returns the models page."""
    return ModelsController(context)
