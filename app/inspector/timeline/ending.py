"""The end of a run, and its unsure tokens, in words."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.design.controls import label
from app.design.layouts import column_of
from app.design.tokens import SPACE_2, SPACE_4
from app.inspector.story_words import doubts_in_words, end_in_words
from app.inspector.timeline.overview import Overview
from app.player.player import Player
from app.system.i18n import tr


class EndWords(QWidget):
    """The sentences. They follow the player."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self._player, self._overview = player, overview
        self.setAccessibleName(tr("The end of the run"))
        self.words = label("", wrap=True, selectable=True)
        self.setLayout(column_of(self.words, margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_2)))
        for signal in (player.opened, player.grown, overview.known):
            signal.connect(self._say)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._say()

    @Slot()
    def _say(self) -> None:
        trace, overview = self._player.trace, self._overview
        if trace is None or not self.isVisible():
            return
        said = [end_in_words(trace.result)]
        if said[0] and overview.complete:
            said.append(doubts_in_words(overview.doubts, trace.piece, is_written=overview.is_written))
        self.words.setText(" ".join(said))
