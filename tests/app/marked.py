"""Finds strings on screen that did not pass through ``tr``: under ``Brackets`` all that did are in ⟦brackets⟧."""

from __future__ import annotations

import gettext
import re
from collections.abc import Collection, Iterator

from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QGroupBox,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSpinBox,
    QTabBar,
    QTextEdit,
    QWidget,
)


class Brackets(gettext.NullTranslations):
    """A catalogue that says everything in brackets."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"⟦{msgid1 if n == 1 else msgid2}⟧"


def unmarked(widget: QWidget, data: Collection[str] = ()) -> list[str]:
    """The strings of a widget and all in it, shown or not, that hold words outside brackets.

    ``data`` are texts that are nobody's to translate: names of models and keys, what was typed. What a text field,
    a plain-text view or a number box holds is taken for data too.
    """
    known = sorted(data, key=len, reverse=True)
    found = []
    for part in (widget, *widget.findChildren(QWidget)):
        for kind, text in texts(part):
            if _has_words(text, known):
                found.append(f"{type(part).__name__} {part.objectName()!r} {kind}: {text!r}")
    return found


def _has_words(text: str, data: Collection[str]) -> bool:
    before = None
    while before != text:  # brackets within brackets
        before, text = text, re.sub(r"⟦[^⟦⟧]*⟧", "", text)
    for word in data:
        text = text.replace(word, "")
    return any(letter.isalpha() for letter in text)


def texts(part: QWidget) -> Iterator[tuple[str, str]]:
    """Yields what a widget shows or says to a screen reader, and where."""
    internal = part.objectName().startswith("qt_")
    yield "tip", part.toolTip()
    yield "name", part.accessibleName()
    yield "description", part.accessibleDescription()
    if part.isWindow() and not internal:
        yield "title", part.windowTitle()
    if isinstance(part, QLabel | QAbstractButton):
        yield "text", part.text()
    if isinstance(part, QLineEdit | QPlainTextEdit | QTextEdit):
        yield "placeholder", part.placeholderText()
    if isinstance(part, QGroupBox):
        yield "title", part.title()
    if isinstance(part, QAbstractSpinBox):
        yield "special value", part.specialValueText()
    if isinstance(part, QSpinBox | QDoubleSpinBox):
        yield "prefix", part.prefix()
        yield "suffix", part.suffix()
    if isinstance(part, QTabBar):
        yield from (("tab", part.tabText(place)) for place in range(part.count()))
    if isinstance(part, QMenu):
        yield "title", part.title()
    for action in part.actions():
        yield "action", action.text()
    if isinstance(part, QComboBox | QAbstractItemView) and part.model() is not None:
        yield from _rows(part.model())


def _rows(model: QAbstractItemModel, parent: QModelIndex | None = None) -> Iterator[tuple[str, str]]:
    parent = QModelIndex() if parent is None else parent
    roles = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole)
    is_list = isinstance(model, QAbstractListModel)  # which hides what it inherits of columns and children
    for row in range(model.rowCount(parent)):
        for column in range(1 if is_list else model.columnCount(parent)):
            index = model.index(row, column, parent)
            for role in roles:
                text = index.data(role)
                if isinstance(text, str):
                    yield "row", text
            if column == 0 and not is_list and model.hasChildren(index):
                yield from _rows(model, index)
