"""The questions or the output format of a run, and the rounds it took. Follows the player."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QShowEvent, QTextCursor
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QWidget

from app.design.controls import label
from app.design.layouts import column_of
from app.design.text_field import PlainText
from app.design.tokens import SPACE_2, SPACE_4
from app.player.player import Player
from app.state.run.canvas import PinnedRound
from app.state.run.replay import Frame
from app.state.run.task_words import has_rounds, kind_words, round_words, task_text
from app.system.i18n import tr


class TaskView(QWidget):
    """The task of a run, and the rounds of the current block. Choosing a round goes to its frame."""

    def __init__(self, player: Player, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self._shown: tuple[PinnedRound, ...] = ()
        self.setAccessibleName(tr("What the run was asked for"))
        self.kind = label("", "lead", wrap=True)
        self.text = PlainText()
        self.text.setReadOnly(True)
        self.text.setProperty("role", "code")
        self.text.setAccessibleName(tr("What the run was asked for"))
        self.caption = label("", "caption", wrap=True)
        self.rounds = QListWidget()
        self.rounds.setWordWrap(True)
        self.rounds.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.rounds.setAccessibleName(tr("Rounds of this block"))
        self.setLayout(
            column_of(
                self.kind,
                self.text,
                self.caption,
                self.rounds,
                margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_4),
                spacing=SPACE_2,
            )
        )
        self.rounds.itemClicked.connect(self._go)
        self.rounds.itemActivated.connect(self._go)
        player.opened.connect(self._open)
        player.grown.connect(self._show)
        player.placed.connect(self._show)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.text.moveCursor(QTextCursor.MoveOperation.Start)

    @Slot()
    def _open(self) -> None:
        trace = self._player.trace
        if trace is None:
            return
        self.kind.setText(kind_words(trace.header))
        self.text.setPlainText(task_text(trace.header))
        self.text.moveCursor(QTextCursor.MoveOperation.Start)
        for part in (self.caption, self.rounds):
            part.setVisible(has_rounds(trace.header))
        self._show()

    @Slot()
    def _show(self, _place: int = 0) -> None:
        trace, frame, record = self._player.trace, self._player.frame, self._player.block
        if trace is None or trace.header.output_format is None or frame is None or record is None:
            return
        if record.rounds != self._shown:
            self._shown = record.rounds
            self.rounds.clear()
            for one in record.rounds:
                words = round_words(one)
                self.rounds.addItem(QListWidgetItem(words[:1].upper() + words[1:]))
        said = tr("Rounds: what fits the format is kept, and the rest is written again.")
        self.caption.setText(said if self._shown else tr("No round yet: nothing of this block is kept so far."))
        done = [place for place, one in enumerate(self._shown) if one.step <= frame.step]
        self.rounds.setCurrentRow(done[-1] if done else -1)

    @Slot(QListWidgetItem)
    def _go(self, item: QListWidgetItem) -> None:
        frame, replay = self._player.frame, self._player.replay
        row = self.rounds.row(item)
        if frame is None or replay is None or not 0 <= row < len(self._shown):
            return
        self._player.pause()
        self._player.go(replay.place(Frame(frame.block, self._shown[row].step)))
