"""The meaning of keys on a board."""

from __future__ import annotations

import unicodedata
from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QKeySequence

from app.state.sudoku.board import BLANK, SIZE

Edit = Literal["copy", "paste", "undo", "redo"]

_STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
_CLEARING = (Qt.Key.Key_Backspace, Qt.Key.Key_Delete)
_CONTROL, _SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
_KEYPAD = Qt.KeyboardModifier.KeypadModifier
_REDO = QKeySequence("Ctrl+Y"), QKeySequence("Ctrl+Shift+Z")


def digit_of(event: QKeyEvent) -> str | None:
    """Returns the digit of a key, ``0`` if it clears; None for any other key.

    It uses the text of the key, not its code: some keyboards have digits on Shift, and some scripts their own digits.
    """
    if event.modifiers() & ~(_SHIFT | _KEYPAD):
        return None
    if event.key() in _CLEARING:
        return BLANK
    text = event.text()
    if text == ".":
        return BLANK
    value = unicodedata.digit(text, None) if len(text) == 1 else None
    return None if value is None else str(value)


def place_of(event: QKeyEvent, cursor: int) -> int | None:
    """Returns the cell that a key moves the cursor to; None for other keys.

    Keys are the arrows, and Home and End for the ends of the row, or with Ctrl of the board.
    """
    held, key = event.modifiers() & ~_KEYPAD, Qt.Key(event.key())
    row, column = divmod(cursor, 9)
    if not held and key in _STEPS:
        down, right = _STEPS[key]
        return 9 * min(max(row + down, 0), 8) + min(max(column + right, 0), 8)
    if key in (Qt.Key.Key_Home, Qt.Key.Key_End) and held in (Qt.KeyboardModifier.NoModifier, _CONTROL):
        first = key == Qt.Key.Key_Home
        if held:
            return 0 if first else SIZE - 1
        return 9 * row + (0 if first else 8)
    return None


def edit_of(event: QKeyEvent) -> Edit | None:
    """Returns "copy", "paste", "undo" or "redo" for their usual keys; else None."""
    if event.matches(QKeySequence.StandardKey.Copy):
        return "copy"
    if event.matches(QKeySequence.StandardKey.Paste):
        return "paste"
    if event.matches(QKeySequence.StandardKey.Undo):
        return "undo"
    pressed = QKeySequence(event.keyCombination())
    return "redo" if event.matches(QKeySequence.StandardKey.Redo) or pressed in _REDO else None
