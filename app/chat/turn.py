"""One turn of a conversation: what was asked, and the answer under it."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.answer import AnswerView
from app.chat.look import CanvasLook
from app.controls import label
from app.messages import LoadedModel
from app.state.chat_state import Turn


class TurnView(QWidget):
    """The prompt is plain text and never changes; the answer draws itself."""

    def __init__(self, turn: Turn, model: LoadedModel, look: CanvasLook) -> None:
        super().__init__()
        self.turn = turn
        self.prompt = label(turn.prompt, "prose", wrap=True, selectable=True)
        self.prompt.setAccessibleName("Prompt")
        self.answer = AnswerView(turn, model, look, self.prompt)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(label("You", "speaker"))
        column.addWidget(self.prompt)
        column.addSpacing(20)
        column.addWidget(self.answer)
