"""The text at the current frame, with the selected and the hovered cell marked in it.

The text is that of the committed blocks, then the draft of the current block: accepted tokens, and the best guess for
the other positions. Each token is decoded by itself, so that every position has its own place.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from PySide6.QtCore import QPoint, Qt, Signal, Slot
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QTextCharFormat, QTextCursor, QTextOption
from PySide6.QtWidgets import QTextEdit, QWidget

from app.canvas.words import token_words
from app.design import themes
from app.design.controls import label
from app.design.fonts import TEXT_LEAD, ui_font
from app.design.layouts import column_of
from app.design.text_field import PlainText
from app.design.tokens import SPACE_2, SPACE_4, Theme, color
from app.inspector.words import capital
from app.player.player import NOTHING, Player
from app.system.i18n import tr
from engine import CanvasCommitted, SafelightError, step_number

UNSHOWABLE = "◇"
_BREAKS = "\x0b\x0c\x85\u2028\u2029"  # end a line in some widgets only
_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # change the writing direction


@dataclass(frozen=True)
class TextMap:
    """A text and the places of its positions in UTF-16 units, the units that Qt counts in."""

    text: str
    edges: tuple[int, ...]  # position p lies from edges[p] to edges[p + 1]; these are equal if it has no text

    @cached_property
    def _filled(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The starts of the positions that have text, and these positions."""
        filled = [p for p in range(len(self.edges) - 1) if self.edges[p] < self.edges[p + 1]]
        return tuple(self.edges[p] for p in filled), tuple(filled)

    def span(self, position: int) -> tuple[int, int]:
        """Returns the start and end of a position, equal if it has no text. Raises IndexError outside the text."""
        if not 0 <= position < len(self.edges) - 1:
            raise IndexError(f"position {position} is outside a text of {len(self.edges) - 1} positions")
        return self.edges[position], self.edges[position + 1]

    def position_at(self, offset: int) -> int:
        """Returns the position whose text is at an offset; -1 if there is none."""
        starts, filled = self._filled
        place = bisect_right(starts, offset) - 1
        return -1 if place < 0 or offset >= self.edges[filled[place] + 1] else filled[place]


def read(tokens: Sequence[int], piece: Callable[[int], str], is_special: Callable[[int], bool]) -> TextMap:
    """Joins the text of tokens; control tokens have no text."""
    parts = ["" if is_special(token) else shown(piece(token)) for token in tokens]
    return TextMap("".join(parts), tuple(accumulate(map(units, parts), initial=0)))


def units(text: str) -> int:
    """Returns the length in UTF-16 units: two for a character outside the basic plane, such as most emoji."""
    return len(text) + sum(character > "\uffff" for character in text)


def shown(piece: str) -> str:
    """Returns a token's text with a sign for every character that a text widget would hide or act on.

    Carriage returns are left out: next to a line feed, which may be another token, they would make a second line.
    """
    return piece if piece.isprintable() else "".join(_shown(character) for character in piece if character != "\r")


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _BREAKS:
        return "\n"
    code = ord(character)
    unwritten = unicodedata.category(character) in ("Cc", "Cs") or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return UNSHOWABLE if unwritten or character in _TURNS else character


class TextPane(PlainText):
    """Plain text that can be selected and copied, but not changed."""

    chosen = Signal(int)  # an offset in UTF-16 units

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setTabChangesFocus(True)
        self.setAccessibleName(tr("The text at this step"))
        self.setPlaceholderText(tr("No text at this step."))
        self._text = ""

    def bring(self, text: str) -> None:
        """Shows a text. Only the part between the common beginning and the common end is replaced."""
        if text == self._text:
            return
        old, self._text = self._text, text
        low = _shared(old, text)
        tail = _shared(old[low:][::-1], text[low:][::-1])
        cursor = QTextCursor(self.document())
        cursor.setPosition(units(old[:low]))
        cursor.setPosition(units(old[: len(old) - tail]), QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(text[low : len(text) - tail])

    def bring_into_sight(self, offset: int) -> None:
        """Scrolls to an offset and moves the cursor there, unless text is selected."""
        if not self.textCursor().hasSelection():
            cursor = QTextCursor(self.document())
            cursor.setPosition(offset)
            self.setTextCursor(cursor)
            self.ensureCursorVisible()

    def mark(self, low: int, high: int, look: QTextCharFormat) -> QTextEdit.ExtraSelection:
        """Returns a selection that gives the text from ``low`` to ``high`` another format."""
        selection = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.document())
        cursor.setPosition(low)
        cursor.setPosition(high, QTextCursor.MoveMode.KeepAnchor)
        selection.cursor, selection.format = cursor, look
        return selection

    def offset_at(self, point: QPoint) -> int:
        """Returns the offset of the character under a point of the viewport; -1 outside the text."""
        near = self.cursorForPosition(point)
        # The cursor is between two characters, at the nearer side; the point may be on the one before or after it.
        for move in (QTextCursor.MoveOperation.PreviousCharacter, QTextCursor.MoveOperation.NextCharacter):
            other = QTextCursor(near)
            other.movePosition(move)
            a, b = self.cursorRect(near), self.cursorRect(other)
            same_line = a.top() == b.top() and a.top() <= point.y() <= a.bottom()
            if same_line and min(a.left(), b.left()) <= point.x() < max(a.left(), b.left()):
                return min(near.position(), other.position())
        return -1

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            offset = self.offset_at(event.position().toPoint())
            if offset >= 0:
                self.chosen.emit(offset)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit(self.textCursor().position())


def _shared(a: str, b: str) -> int:
    """Returns the number of characters of the common beginning."""
    if a == b[: len(a)]:
        return len(a)
    low, high = 0, min(len(a), len(b))
    while low < high:  # by halves: each step of a scrub asks this of the whole text
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class RenderedText(QWidget):
    """The text, with a caption about the selected cell."""

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("The text at this step"))
        self._player = player
        self._before = ""  # the text of the committed blocks
        self._start = 0  # the length of ``_before`` in UTF-16 units
        self._block = NOTHING
        self._commits: list[tuple[int, str]] = []  # each committed block's number and text
        self._commits_read = 0  # number of trace events already searched
        self._reading = TextMap("", (0,))
        self._draft_end = 0  # offset in the draft at which the end token starts
        self.pane = TextPane()
        self.caption = label("", "caption", wrap=True, selectable=True, name=tr("The selected cell in the text"))
        self.setLayout(
            column_of((self.pane, 1), self.caption, margins=(SPACE_4, SPACE_2, SPACE_4, SPACE_4), spacing=SPACE_2)
        )
        self.setFocusProxy(self.pane)
        self.pane.chosen.connect(self._choose)
        player.placed.connect(self._show)
        player.grown.connect(self._show)
        player.opened.connect(self._open)
        player.selected.connect(self._select)
        player.hovered.connect(self._mark)
        themes.changed.connect(self._redress)
        self._show()
        self._redress()

    @Slot()
    def _redress(self) -> None:
        self.pane.setFont(ui_font(TEXT_LEAD))
        self._mark()

    @property
    def text(self) -> str:
        return self._before + self._reading.text

    @Slot()
    def _open(self) -> None:
        self._commits, self._commits_read = [], 0

    @Slot()
    def _show(self) -> None:
        """Shows the text at the current frame. Only the changed part is laid out again."""
        snapshot, frame, trace = self._player.snapshot, self._player.frame, self._player.trace
        if snapshot is None or frame is None or trace is None:
            self._before, self._reading, self._draft_end = "", TextMap("", (0,)), 0
        else:
            self._read_commits()
            is_alone = trace.header.decision is not None  # each read is of the same prompt
            before = () if is_alone else self._commits
            self._before = "".join(text for block, text in before if block < snapshot.block_index)
            tokens = snapshot.tokens(calm=True).tolist()
            if snapshot.committed:
                tokens = tokens[: snapshot.text_length]
            self._reading = read(tokens, trace.piece, trace.is_special)
            ends = trace.config.eos_token_ids
            end = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
            self._draft_end = self._reading.edges[end]
        self._start = units(self._before) if self._before else 0
        self.pane.bring(self.text)
        block = NOTHING if frame is None else frame.block
        if block != self._block:
            self._block = block
            self.pane.bring_into_sight(self._start)
        words = self._words()
        if words != self.pane.accessibleDescription():
            self.pane.setAccessibleDescription(words)
            self.setAccessibleDescription(words)
        self._mark()

    def _read_commits(self) -> None:
        """Reads the texts of newly committed blocks. The steps in between are not read."""
        trace = self._player.trace
        if trace is None:
            return
        stop = len(trace.entries)  # fixed first: a live run may grow meanwhile
        for place, entry in enumerate(trace.entries[self._commits_read : stop], self._commits_read):
            if entry.kind != "commit":
                continue
            try:
                event = trace.event(place)
            except SafelightError:  # a damaged record in a file; later records can be read
                self._commits.append((entry.block, tr("[Block {block} cannot be read.]", block=entry.block + 1)))
                continue
            assert isinstance(event, CanvasCommitted)
            text = read(event.tokens[: event.text_length].tolist(), trace.piece, trace.is_special).text
            self._commits.append((entry.block, text))
        self._commits_read = stop

    def _words(self) -> str:
        frame = self._player.frame
        if frame is None:
            return tr("No text yet.")
        if self._player.replay is not None and self._player.replay.is_decision:
            return tr("The canvas of read {read}, with its answers.", read=frame.block + 1)
        record = self._player.block
        if record is not None and frame.step >= record.steps and record.final is not None:
            return tr("Block {block}, finished.", block=frame.block + 1)
        if frame.step < 0:
            if record is not None and record.has_masks:
                return tr("Block {block}, before the first step.", block=frame.block + 1)
            return tr("Block {block}, before the first step: noise.", block=frame.block + 1)
        return tr("Block {block}, draft at step {step}.", block=frame.block + 1, step=step_number(frame.step))

    @Slot()
    def _mark(self, _position: int = NOTHING) -> None:
        """Marks the text of the selected and the hovered cell, and dims the text after the draft's end."""
        theme, marks, start = themes.current(), [], self._start
        count = len(self._reading.edges) - 1
        if self._draft_end < self._reading.edges[-1]:
            behind = QTextCharFormat()
            behind.setForeground(color(theme.noise))
            marks.append(self.pane.mark(start + self._draft_end, start + self._reading.edges[-1], behind))
        hovered, selected = self._player.hover, self._player.selection
        if 0 <= hovered < count and hovered != selected:
            marks.append(self.pane.mark(*self._place(hovered), _tint(color(theme.line_strong), theme, False)))
        if 0 <= selected < count:
            marks.append(self.pane.mark(*self._place(selected), _tint(color(theme.selection), theme, True)))
        self.pane.setExtraSelections(marks)
        self._caption()

    @Slot(int)
    def _select(self, position: int) -> None:
        if 0 <= position < len(self._reading.edges) - 1:
            self.pane.bring_into_sight(self._place(position)[0])
        self._mark()

    def _place(self, position: int) -> tuple[int, int]:
        low, high = self._reading.span(position)
        return self._start + low, self._start + high

    def _caption(self) -> None:
        position = self._player.selection if self._player.selection != NOTHING else self._player.hover
        snapshot = self._player.snapshot
        if snapshot is None:
            text = tr("The text at this step appears here.")
        elif not 0 <= position < snapshot.length:
            text = tr(
                "{frame} Click in the text, or press Enter at the cursor, to select the cell that it comes from.",
                frame=self._words(),
            )
        else:
            token = int(snapshot.tokens(calm=True)[position])
            piece = token_words(self._player.piece(token))
            text = tr("{cell}: {piece}", cell=capital(self._player.name_of(position)), piece=piece)
            if position >= len(self._reading.edges) - 1:
                text = tr("{cell}, after the end of the block's text.", cell=text)
            elif len(set(self._reading.span(position))) == 1:
                text = tr("{cell}, which has no text of its own.", cell=text)
        self.caption.setText(text)

    @Slot(int)
    def _choose(self, offset: int) -> None:
        position = self._reading.position_at(offset - self._start)
        if position != NOTHING:
            self._player.select(position)


def _tint(shade: QColor, theme: Theme, chosen: bool) -> QTextCharFormat:
    """Returns a text format with a background, underlined for the selected cell: not all users can see the colour."""
    look = QTextCharFormat()
    look.setBackground(shade)
    look.setForeground(color(theme.ink))
    if chosen:
        look.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        look.setUnderlineColor(color(theme.focus))
    return look
