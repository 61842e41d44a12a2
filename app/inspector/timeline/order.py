"""The order in which a run settled, how it ended, and its unsure tokens, in words."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.design.controls import label
from app.design.layouts import column_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.inspector.story_words import doubts_in_words, end_in_words, order_in_words
from app.inspector.timeline.overview import Overview
from app.player.player import Player
from app.system.i18n import tr


class OrderWords(QWidget):
    """The sentences. They follow the player."""

    def __init__(self, player: Player, overview: Overview) -> None:
        super().__init__()
        self._player, self._overview = player, overview
        self.setAccessibleName(tr("Order of settling"))
        self.words = label("", "", wrap=True, selectable=True)
        self.end = label("", "caption", wrap=True, selectable=True)
        self.setLayout(column_of(self.words, self.end, margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_2), spacing=SPACE_1))
        for signal in (player.opened, player.grown, overview.known):
            signal.connect(self._say)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._say()

    @Slot()
    def _say(self) -> None:
        if not self.isVisible():
            return
        trace, order = self._player.trace, self._overview.order
        words = end = ""
        if trace is not None and order is None:
            words = tr("The order is worked out…")
        elif trace is not None and order is not None and order.blocks:
            words = " ".join(order_in_words(order))
            said = [end_in_words(trace.result), doubts_in_words(order, trace.piece)]
            end = " ".join(said if said[0] else ())
        elif trace is not None:
            words = tr("No step was taken yet.")
        self.words.setText(words)
        self.end.setText(end)
        self.end.setVisible(bool(end))
