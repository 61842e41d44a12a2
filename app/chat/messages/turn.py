"""The view of one turn of a conversation: the prompt and the answer below it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.chat.messages.answer import AnswerView
from app.chat.messages.prompt import PromptView
from app.chat.view_options import ViewOptions
from app.design.layouts import STRETCH, column_of
from app.state.chat.conversation import Turn
from engine.service import LoadedModel

ABOVE, BELOW, BETWEEN = 24, 24, 20


class TurnView(QWidget):
    """A prompt and its answer. Signals with an object carry the turn first."""

    stop_asked = Signal()
    again_asked = Signal(object)
    edit_asked = Signal(object, str)
    delete_asked = Signal(object)
    answer_chosen = Signal(object, int)
    prompt_chosen = Signal(object, int)
    answer_delete_asked = Signal(object, int)
    inspect_asked = Signal(object)
    replay_asked = Signal(object)
    pace_chosen = Signal(str)
    rebuilt = Signal(object)  # the turn; its controls changed

    def __init__(self, turn: Turn, model: LoadedModel | None, options: ViewOptions) -> None:
        super().__init__()
        self.turn = turn
        self.prompt = PromptView(turn, options)
        self.answer = AnswerView(turn, model, options)
        self.setLayout(column_of(self.prompt, self.answer, STRETCH, margins=(0, ABOVE, 0, BELOW), spacing=BETWEEN))
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.prompt.edit_asked.connect(self._edit)
        self.prompt.delete_asked.connect(self._delete)
        self.prompt.chosen.connect(self._choose_prompt)
        self.prompt.rebuilt.connect(self._rebuilt)
        self.answer.stop_asked.connect(self.stop_asked)
        self.answer.again_asked.connect(self._again)
        self.answer.chosen.connect(self._choose_answer)
        self.answer.delete_asked.connect(self._delete_answer)
        self.answer.inspect_asked.connect(self._inspect)
        self.answer.rebuilt.connect(self._rebuilt)
        self.answer.replay.wanted.connect(self._replay)
        self.answer.replay.pace_chosen.connect(self.pace_chosen)

    @property
    def stays(self) -> bool:
        """True if deleting the widgets would lose something: an edit, a running answer or a replay."""
        return self.prompt.is_editing or self.turn.answer.is_active or self.answer.replay.is_on

    def tab_stops(self) -> list[QWidget]:
        """Returns the controls in tab order."""
        stops = [*self.prompt.tab_stops(), *self.answer.tab_stops()]
        return [stop for stop in stops if stop.focusPolicy() != Qt.FocusPolicy.NoFocus]

    def set_options(self, options: ViewOptions) -> None:
        self.answer.set_options(options)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        _activate(self)  # so that changes just made count
        layout = self.layout()
        return layout.totalHeightForWidth(width) if layout is not None else 0

    @Slot()
    def _again(self) -> None:
        self.again_asked.emit(self.turn)

    @Slot(str)
    def _edit(self, text: str) -> None:
        self.edit_asked.emit(self.turn, text)

    @Slot()
    def _delete(self) -> None:
        self.delete_asked.emit(self.turn)

    @Slot()
    def _inspect(self) -> None:
        self.inspect_asked.emit(self.turn)

    @Slot()
    def _replay(self) -> None:
        self.replay_asked.emit(self.turn)

    @Slot()
    def _delete_answer(self) -> None:
        self.answer_delete_asked.emit(self.turn, self.turn.answers.shown)

    @Slot(int)
    def _choose_prompt(self, index: int) -> None:
        self.prompt_chosen.emit(self.turn, index)

    @Slot(int)
    def _choose_answer(self, index: int) -> None:
        self.answer_chosen.emit(self.turn, index)

    @Slot()
    def _rebuilt(self) -> None:
        self.rebuilt.emit(self.turn)


def _activate(widget: QWidget) -> None:
    """Activates layouts from the inside out; Qt would only do so when idle."""
    for child in widget.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
        if child.layout() is not None and not child.isHidden():
            _activate(child)
    layout = widget.layout()
    if layout is not None:
        layout.activate()
