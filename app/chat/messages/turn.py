"""The view of one turn of a conversation: the prompt and the answer below it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.chat.commands import TurnCommands
from app.chat.messages.answer import AnswerView
from app.chat.messages.prompt import PromptView
from app.chat.view_options import ViewOptions
from app.design.layouts import STRETCH, column_of
from app.state.chat.conversation import Turn
from engine.service import LoadedModel

ABOVE, BELOW, BETWEEN = 24, 24, 20


class TurnView(QWidget):
    """A prompt and its answer; ``rebuilt`` is called when their controls have changed."""

    def __init__(
        self,
        turn: Turn,
        model: LoadedModel | None,
        options: ViewOptions,
        commands: TurnCommands,
        rebuilt: Callable[[], object],
    ) -> None:
        super().__init__()
        self.turn = turn
        self.prompt = PromptView(turn, options, commands, rebuilt)
        self.answer = AnswerView(turn, model, options, commands, rebuilt)
        self.setLayout(column_of(self.prompt, self.answer, STRETCH, margins=(0, ABOVE, 0, BELOW), spacing=BETWEEN))
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    @property
    def stays(self) -> bool:
        """True if deleting the widgets would lose something: an edit, a change, a running answer or a replay."""
        is_edited = self.prompt.is_editing or not self.answer.changing.isHidden()
        return is_edited or self.turn.answer.is_active or self.answer.replay.is_on

    def tab_stops(self) -> list[QWidget]:
        stops = [*self.prompt.tab_stops(), *self.answer.tab_stops()]
        return [stop for stop in stops if stop.focusPolicy() != Qt.FocusPolicy.NoFocus]

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        _activate(self)  # so that changes just made count
        layout = self.layout()
        return layout.totalHeightForWidth(width) if layout is not None else 0


def _activate(widget: QWidget) -> None:
    """Activates layouts from the inside out; Qt would only do so when idle."""
    for child in widget.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
        if child.layout() is not None and not child.isHidden():
            _activate(child)
    layout = widget.layout()
    if layout is not None:
        layout.activate()
