"""The conversation on show: turns in a column, suggestions and the composer under it. Decides nothing about runs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.chat.composer import Composer
from app.chat.look import CanvasLook
from app.chat.notice import Notice
from app.chat.prompts import Suggestion
from app.chat.suggestions import SuggestionBar
from app.chat.turn import TurnView
from app.controls import Hairline, chain_tabs, label
from app.messages import LoadedModel
from app.state.chat_state import Turn
from app.theme import TEXT_LEAD

COLUMN_CHARACTERS = 72
SIDE = 24
READING = (
    "While an answer develops it is a canvas: noise is dim, accepted tokens are underlined, remelted ones have a "
    "dashed outline, and what has settled stands in full ink. Point at a place to read its history."
)


def _column(content: QWidget, width: int) -> QHBoxLayout:
    """The content centred, at most ``width`` pixels wide."""
    content.setMaximumWidth(width)
    row = QHBoxLayout()
    row.setContentsMargins(SIDE, 0, SIDE, 0)
    row.addStretch(1)
    row.addWidget(content, 1000)
    row.addStretch(1)
    return row


class ChatPage(QWidget):
    """Emits what the user wants; shows what it is told."""

    submitted = Signal(str)
    picked = Signal(str)  # a suggestion's prompt
    stop_asked = Signal()
    again_asked = Signal()

    def __init__(self, look: CanvasLook) -> None:
        super().__init__()
        self._look = look
        self._at_end = True
        self.turns: list[TurnView] = []
        font = self.font()
        font.setPixelSize(TEXT_LEAD)
        width = COLUMN_CHARACTERS * QFontMetrics(font).averageCharWidth()

        self.title = label("Watch the text develop", "display", wrap=True)
        self.introduction = label("", "lead", wrap=True)
        self.welcome = QWidget()
        welcome = QVBoxLayout(self.welcome)
        welcome.setContentsMargins(0, 40, 0, 0)
        welcome.setSpacing(12)
        welcome.addWidget(self.title)
        welcome.addWidget(self.introduction)
        welcome.addWidget(label(READING, "caption", wrap=True))
        self.suggestions = SuggestionBar(one_row=False)
        self.suggestions.picked.connect(self.picked)
        welcome.addSpacing(8)
        welcome.addWidget(self.suggestions)

        self._turn_host = QWidget()
        self._turn_column = QVBoxLayout(self._turn_host)
        self._turn_column.setContentsMargins(0, 24, 0, 24)
        self._turn_column.setSpacing(24)
        self._turn_column.addWidget(self.welcome)
        scrolled = QWidget()
        scrolled_column = QVBoxLayout(scrolled)
        scrolled_column.setContentsMargins(0, 0, 0, 0)
        scrolled_column.addLayout(_column(self._turn_host, width))
        scrolled_column.addStretch(1)
        self.scroll_area = QScrollArea()
        self.scroll_area.setWidgetResizable(True)
        self.scroll_area.setFrameShape(QFrame.Shape.NoFrame)
        self.scroll_area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.scroll_area.setAccessibleName("Conversation")
        self.scroll_area.setWidget(scrolled)
        bar = self.scroll_area.verticalScrollBar()
        bar.rangeChanged.connect(self._keep_end)
        bar.valueChanged.connect(self._note_place)

        self.more_suggestions = SuggestionBar(one_row=True)
        self.more_suggestions.picked.connect(self.picked)
        self.more_suggestions.hide()
        self.notice = Notice()
        self.composer = Composer()
        self.composer.submitted.connect(self.submitted)
        bottom = QWidget()
        bottom_column = QVBoxLayout(bottom)
        bottom_column.setContentsMargins(0, 12, 0, 12)
        bottom_column.setSpacing(12)
        for widget in (self.notice, self.more_suggestions, self.composer):
            bottom_column.addWidget(widget)

        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.scroll_area, 1)
        column.addWidget(Hairline())
        self._bottom_row = _column(bottom, width)
        column.addLayout(self._bottom_row)

    def introduce(self, text: str, placeholder: str) -> None:
        """Say what the loaded model is for."""
        self.introduction.setText(text)
        self.introduction.setVisible(bool(text))
        self.composer.edit.setPlaceholderText(placeholder)

    def offer(self, suggestions: Sequence[Suggestion]) -> None:
        """Replace the suggested prompts."""
        self.suggestions.offer(suggestions)
        self.more_suggestions.offer(suggestions)
        chain_tabs(self.scroll_area, self.suggestions.chips)
        chain_tabs(self.notice.dismiss, self.more_suggestions.chips)

    def set_look(self, look: CanvasLook) -> None:
        """Change how all canvases are drawn."""
        self._look = look
        for view in self.turns:
            view.answer.set_look(look)

    def add_turn(self, turn: Turn, model: LoadedModel) -> None:
        """Put a new turn at the end and go there."""
        view = TurnView(turn, model, self._look)
        view.answer.stop_asked.connect(self.stop_asked)
        view.answer.again_asked.connect(self.again_asked)
        if self.turns:
            self._turn_column.addWidget(Hairline())
        self._turn_column.addWidget(view)
        last = self.turns[-1].answer.after if self.turns else self.scroll_area
        chain_tabs(last, (view.prompt, *view.answer.tab_stops()))
        self.turns.append(view)
        self.welcome.hide()
        self._at_end = True
        self.more_suggestions.show()

    def drop_last_turn(self) -> None:
        """Take the last turn off again."""
        view = self.turns.pop()
        place = self._turn_column.indexOf(view)
        for index in range(place, place - (2 if self.turns else 1), -1):  # the hairline above it goes as well
            item = self._turn_column.takeAt(index)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self.welcome.setVisible(not self.turns)
        self.more_suggestions.setVisible(bool(self.turns))

    def set_can_repeat(self, can_repeat: bool) -> None:
        """Whether the last answer may be generated again."""
        for view in self.turns:
            view.answer.set_place(is_last=view is self.turns[-1], can_repeat=can_repeat)

    def follow(self) -> None:
        """Keep the end in sight from now on."""
        self._at_end = True

    @Slot()
    def _keep_end(self) -> None:
        bar = self.scroll_area.verticalScrollBar()
        beside = bar.sizeHint().width() if bar.maximum() > 0 else 0  # both columns stay in line
        self._bottom_row.setContentsMargins(SIDE, 0, SIDE + beside, 0)
        if self._at_end:
            bar.setValue(bar.maximum())

    @Slot(int)
    def _note_place(self, value: int) -> None:
        self._at_end = value >= self.scroll_area.verticalScrollBar().maximum() - 8
