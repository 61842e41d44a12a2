"""The tokens of a prompt that the offered tools take, counted in a thread."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal, Slot

from app.bridge.background import Background
from engine import SafelightError
from engine.service import LoadedModel
from engine.tools.tool import Tool

MOST_CHARACTERS = 4 * 2**20  # that are counted; no prompt holds more


class ToolCosts(QObject):
    """Counts again when the tools or the model are others; ``tokens`` is None until then, or where it is not known."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tokens: int | None = None
        self._counted: tuple[object, ...] = ()
        self._counting = Background(self, self._take)
        self._counting.failed.connect(self._give_none)

    def follow(self, tools: Sequence[Tool], model: LoadedModel | None) -> None:
        """Counts the tokens of these tools for this model; none are counted for one that cannot use them."""
        wanted = (model, *tools)
        if wanted == self._counted:
            return
        self._counted, self.tokens = wanted, None
        self._counting.drop()
        if model is not None and model.reads_tools and tools:
            self._counting.ask(functools.partial(_count, model, tuple(tools)))

    @Slot(object)
    def _take(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.changed.emit()

    @Slot(object)
    def _give_none(self, _error: object) -> None:
        self.changed.emit()


def _count(model: LoadedModel, tools: Sequence[Tool]) -> int | None:
    functions = [tool.function for tool in tools]
    if len(json.dumps(functions)) > MOST_CHARACTERS:
        return None
    question = [{"role": "user", "content": "?"}]
    with contextlib.suppress(SafelightError):  # the template refuses them
        return model.count_tokens(question, functions) - model.count_tokens(question)
    return None
