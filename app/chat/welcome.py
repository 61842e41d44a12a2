"""The page of an empty conversation: a short explanation, a recorded run, and suggested prompts."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QScrollArea, QWidget

from app.chat.first_run import FirstRun
from app.design import themes
from app.design.controls import button, chain_tabs, flow_of, label
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.suggestion_bar import SuggestionBar
from app.system.i18n import tr

ROW = 40  # pixels at 100 % of a row of suggestions
LEAST_INTRODUCTION = 200  # pixels at 100 % to the left of the buttons


def centred(content: QWidget, width: int, side: int) -> QHBoxLayout:
    """Returns a row with the content in the middle, at most ``width`` pixels wide, with ``side`` pixels around."""
    content.setMaximumWidth(width)
    row = row_of(STRETCH, (content, 1000), STRETCH, margins=(side, 0, side, 0))
    return row


class ChatWelcome(QScrollArea):
    """The welcome page; ``suggestions`` are its suggested prompts."""

    def __init__(self, width: int, side: int) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Welcome"))
        title = label(tr("Watch the text develop"), "display", wrap=True)
        about = label(
            tr("A diffusion model begins with noise and corrects the whole answer, step by step."),
            "setting",
            wrap=True,
        )
        self.introduction = label("", "caption", wrap=True)
        self.introduction.setMinimumHeight(1)
        self.first_run = FirstRun(title, about)
        self.suggestions = SuggestionBar()
        self.models = button(tr("Models for this machine"), role="plain")
        self.content = QWidget()
        self.guide = button(tr("Take the guided minute"))
        self._entries = flow_of(self.guide, self.models, gap=16)
        self._introduced = row_of((self.introduction, 1), self._entries, spacing=16)
        parts = self.first_run, self._introduced, self.suggestions
        self._column = column_of(*parts, margins=(8, 10, 8, 0), spacing=6)
        self.content.setLayout(self._column)
        inside = boxed(column_of(centred(self.content, width, side), STRETCH))
        self.setWidget(inside)
        themes.settled.connect(self._arrange)
        self.first_run.opened.connect(self.order_tabs)

    def introduce(self, text: str) -> None:
        """Shows what the loaded model is for; hides the label for an empty text."""
        self.introduction.setText(text)
        self.introduction.setVisible(bool(text))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    @Slot()
    def _arrange(self) -> None:
        """Puts the suggestions first where the page is too low to show the first of them below the other parts.

        On a narrow page the buttons stand below the introduction.
        """
        width = self.content.width()
        is_row = width - self._entries.sizeHint().width() >= px(LEAST_INTRODUCTION)
        self._introduced.setDirection(QBoxLayout.Direction.LeftToRight if is_row else QBoxLayout.Direction.TopToBottom)
        above = self._column.totalHeightForWidth(width) - self.suggestions.heightForWidth(width)
        place = 0 if above + px(ROW) > self.viewport().height() else 2
        if self._column.indexOf(self.suggestions) != place:
            self._column.removeWidget(self.suggestions)
            self._column.insertWidget(place, self.suggestions)
            self.order_tabs()

    @Slot()
    def order_tabs(self) -> None:
        """Sets the tab order to that of reading: what comes first on the page, first."""
        run = [self.first_run.canvas] if self.first_run.canvas is not None else []
        others = [*run, self.first_run.again, self.guide, self.models]
        is_low = self._column.indexOf(self.suggestions) == 0
        chips = self.suggestions.chips
        chain_tabs(self, [*chips, *others] if is_low else [*others, *chips])

    def set_width(self, width: int) -> None:
        self.content.setMaximumWidth(width)
