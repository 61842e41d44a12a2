"""The start page's entry to the models, which names the card once this computer is known."""

from __future__ import annotations

from typing import cast

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QPushButton

from app.bridge.background import Background
from app.context import MODELS, AppContext
from app.state.models.invitation import invitation
from engine.memory.machine import Machine
from engine.service import is_remote


class ModelsEntry(QObject):
    """Opens the models page on a click. Looks at the computer once a local model is loaded: by then torch is there."""

    def __init__(self, context: AppContext, entry: QPushButton) -> None:
        super().__init__(entry)
        self._context, self._entry, self._is_known = context, entry, False
        self._looking = Background(self, self._name)
        entry.clicked.connect(lambda: context.show_page(MODELS))
        context.model_changed.connect(self._look)
        self._look()

    @Slot()
    def _look(self) -> None:
        model = self._context.model
        if not self._is_known and model is not None and not is_remote(model.path_or_id):
            self._is_known = True
            self._looking.ask(self._context.machine)

    @Slot(object)
    def _name(self, found: object) -> None:
        text = invitation(cast(Machine, found))
        self._entry.setText(text)
        self._entry.setAccessibleName(text)
