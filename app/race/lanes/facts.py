"""Facts about the lanes' models: decoders, default settings, memory. Has no widgets.

The facts of a model that is not loaded are read from its small files. A thread does that, as it imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from app.context import AppContext
from engine import GenerationConfig

MOST_KEPT = 64  # models


@dataclass(frozen=True)
class ModelFacts:
    """Facts about one model.

    Args:
        decoders: Its decoders, the default first; empty if the model cannot be read.
        bytes: Memory that it takes in addition to the loaded model; 0 if not known.
        problem: Why it cannot be read, as a sentence.
        sees: True if it takes pictures.
    """

    decoders: tuple[str, ...] = ()
    defaults: GenerationConfig = field(default_factory=GenerationConfig)
    bytes: int = 0
    problem: str = ""
    sees: bool = False

    @property
    def kind(self) -> tuple[object, ...]:
        """Facts about decoding that models of one family share, unless their files say otherwise."""
        usual = self.defaults
        return *self.decoders[:1], usual.remasking, usual.edit_probability


class FactBook(QObject):
    """Reads and caches the facts by model. ``found`` is emitted when another model was read."""

    found = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._known: dict[str, ModelFacts] = {}
        self._wanted: list[str] = []  # not read yet; the first is being read
        self._reading = Background(self, self._take, self._refuse)

    def of(self, model: str) -> ModelFacts | None:
        """Returns a model's facts; None while they are being read."""
        loaded = self._context.model
        if loaded is not None and loaded.path_or_id == model:
            return ModelFacts(loaded.decoders, loaded.defaults, sees=loaded.capabilities.images)
        if model not in self._known and model not in self._wanted:
            self._wanted.append(model)
            if len(self._wanted) == 1:
                self._read()
        return self._known.get(model)

    def forget(self) -> None:
        """Drops all facts, so that they are read again: the models on this machine have changed."""
        self._known.clear()

    def _read(self) -> None:
        model = self._wanted[0]
        self._reading.ask(lambda: _facts(model))

    @Slot(object)
    def _take(self, facts: ModelFacts) -> None:
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        self._known[self._wanted.pop(0)] = facts
        if self._wanted:
            self._read()
        self.found.emit()

    @Slot(str)
    def _refuse(self, problem: str) -> None:
        self._take(ModelFacts(problem=problem))


def _facts(model: str) -> ModelFacts:
    """Reads the facts from the model's files.

    Raises:
        SafelightError: The model cannot be read.
    """
    from engine import run_settings  # imports torch
    from engine.models.opening import open_model  # imports torch

    found = run_settings(model)
    return ModelFacts(found.decoders, found.defaults, open_model(model).plan().released_bytes, sees=found.sees)
