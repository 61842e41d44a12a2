"""A widget to choose, list and remove spans of settled text that are to be rewritten. Runs nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QListWidget, QListWidgetItem, QSpinBox, QWidget

from app.canvas.words import token_words
from app.design.controls import button, describe, introduce, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.tokens import SPACE_2
from app.inspector.words import what_comes_first
from app.player.player import NOTHING, Player
from app.system.i18n import tr
from engine import Mark

MAX_ROWS = 4  # of a list before it scrolls
MAX_SHOWN = 48  # characters of a span's text


class Spans(QWidget):
    """The spans to rewrite. A selected cell is a span, a second one with Shift is its other end.

    Further spans are added to a list. ``block`` sets why nothing can be rewritten now.
    """

    asked = Signal(object)  # a tuple of engine.Mark
    marked = Signal(object)  # a tuple of engine.Mark: the chosen spans, empty while hidden

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("Parts to rewrite"))
        self._player = player
        self._marks: list[Mark] = []
        self._blocked = self._offer = ""
        self.first = introduce(QSpinBox(), tr("First position"))
        self.last = introduce(QSpinBox(), tr("Last position"))
        self.add = button(tr("Add"), tr("Add this part to those that are rewritten"), clicked=self._add)
        self.text = label("", "caption", wrap=True, name=tr("The text of this part"))
        self.list = introduce(QListWidget(), tr("Parts to rewrite"))
        self.remove = button(tr("Remove"), tr("Remove the selected part"), clicked=self._remove)
        self.run = button(
            tr("Rewrite"), tr("Rewrite these positions and keep all others"), role="plain", clicked=self._ask
        )
        self._lay_out()
        for box in (self.first, self.last):
            box.valueChanged.connect(self._show_span)
        player.opened.connect(self._open)
        player.placed.connect(self._show_place)
        player.grown.connect(self._show_place)
        player.selected.connect(self._take_cell)
        self._open()

    def _lay_out(self) -> None:
        row = row_of(
            label(tr("Positions"), "caption"),
            self.first,
            label(tr("to"), "caption"),
            self.last,
            STRETCH,
            self.add,
            spacing=SPACE_2,
        )
        hint = tr("All else stays as it is. Select a cell, and another with Shift, or type the positions.")
        self.setLayout(
            column_of(
                label(tr("Rewrite a part of the text"), "setting", wrap=True),
                label(hint, "caption", wrap=True),
                row,
                self.text,
                self.list,
                (self.remove, 0, Qt.AlignmentFlag.AlignRight),
                (self.run, 0, Qt.AlignmentFlag.AlignLeft),
                spacing=SPACE_2,
            )
        )

    def block(self, reason: str, offer: str = "") -> None:
        """Sets the reason why nothing can be rewritten now; empty if it can. ``offer`` is the model to load first."""
        self._blocked, self._offer = reason, offer
        describe(self.run, what_comes_first(offer, reason))
        self._show_place()

    @property
    def _can_run(self) -> bool:
        return bool(self._offer) or not self._blocked

    def marks(self) -> tuple[Mark, ...]:
        """Returns the spans to rewrite: the listed ones, or the one in the boxes if the list is empty."""
        mark = self._mark()
        return tuple(self._marks) if self._marks or mark is None else (mark,)

    @Slot()
    def _open(self) -> None:
        self._marks.clear()
        self._show_marks()

    @Slot()
    def _show_place(self) -> None:
        record = self._player.block
        settled = record is not None and record.final is not None
        if record is not None:
            for box in (self.first, self.last):
                box.setRange(0, record.length - 1)
        self.add.setEnabled(settled)
        self.run.setEnabled(self._can_run and (settled or bool(self._marks)))
        self._show_span()

    @Slot(int)
    def _take_cell(self, position: int) -> None:
        """Makes the selected cell the span; with Shift it becomes the span's other end."""
        if position == NOTHING:
            return
        if not QApplication.keyboardModifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.first.setValue(position)
        self.last.setValue(position)

    def _mark(self) -> Mark | None:
        frame = self._player.frame
        first, last = sorted((self.first.value(), self.last.value()))
        return None if frame is None else Mark(frame.block, first, last + 1)

    @Slot()
    def _show_span(self) -> None:
        mark = self._mark()
        self.text.setText("" if mark is None else self._words(mark))
        self._tint()

    def _tint(self) -> None:
        """Reports the marked spans: the listed ones, and the one in the boxes if it has more than one cell."""
        mark = self._mark()
        shown = [*self._marks, *([mark] if mark is not None and mark.stop - mark.start > 1 else [])]
        self.marked.emit(tuple(shown) if self.isVisible() else ())

    def showEvent(self, _event: QShowEvent) -> None:
        self._tint()

    def hideEvent(self, _event: QHideEvent) -> None:
        self._tint()

    def _words(self, mark: Mark) -> str:
        """Describes a span, with its text if its block is settled."""
        replay = self._player.replay
        record = replay.peek(mark.block) if replay is not None and mark.block < replay.blocks else None
        if mark.stop - mark.start == 1:
            where = tr("Block {block}, position {first}", block=mark.block + 1, first=mark.start)
        else:
            where = tr(
                "Block {block}, positions {first} to {last}", block=mark.block + 1, first=mark.start, last=mark.stop - 1
            )
        if record is None or record.final is None:
            return tr("{where}: this block is not finished", where=where)
        text = "".join(self._player.piece(token) for token in record.final[mark.start : mark.stop].tolist())
        if len(text) > MAX_SHOWN:
            text = f"{text[: MAX_SHOWN - 1]}…"
        return tr("{where}: {text}", where=where, text=token_words(text))

    @Slot()
    def _add(self) -> None:
        mark = self._mark()
        if mark is not None:
            self._marks = merged([*self._marks, mark])
            self._show_marks()

    @Slot()
    def _remove(self) -> None:
        row = self.list.currentRow()
        if row >= 0:
            del self._marks[row]
            self._show_marks()

    def _show_marks(self) -> None:
        self.list.clear()
        for mark in self._marks:
            self.list.addItem(QListWidgetItem(self._words(mark)))
        if self._marks:
            self.list.setCurrentRow(len(self._marks) - 1)
        fit_rows(self.list)
        for part in (self.list, self.remove):
            part.setVisible(bool(self._marks))
        self._show_place()

    @Slot()
    def _ask(self) -> None:
        marks = self.marks()
        if marks and self._can_run:
            self.asked.emit(marks)


def fit_rows(rows: QListWidget) -> None:
    """Fits a list's height to its rows, up to ``MAX_ROWS``."""
    row = max(rows.sizeHintForRow(0), px(20))
    rows.setFixedHeight(row * min(max(rows.count(), 1), MAX_ROWS) + 2 * rows.frameWidth() + 2)


def merged(marks: Sequence[Mark]) -> list[Mark]:
    """Returns the spans in order, with overlapping and adjacent ones merged."""
    spans: list[Mark] = []
    for mark in sorted(marks, key=lambda one: (one.block, one.start)):
        if spans and spans[-1].block == mark.block and mark.start <= spans[-1].stop:
            spans[-1] = Mark(mark.block, spans[-1].start, max(spans[-1].stop, mark.stop))
        else:
            spans.append(mark)
    return spans
