"""Reads a puzzle in any of the formats people pass puzzles on in. Knows neither Qt nor torch, and judges nothing."""

from __future__ import annotations

import re
import unicodedata

from app.state.sudoku.board import BLANK, SIZE, Board
from app.system.i18n import tr, trn
from engine.tasks import sudoku


class PasteError(ValueError):
    """The text is no puzzle; the message says why in one sentence, in the user's language."""


MOST_TEXT = 20_000  # characters, of which some become eighteen
_BLANKS = frozenset("0._*?xX·-")
_IGNORED = frozenset("|+!:'\"")
_RULES = frozenset("-+=|*:.' ")
_CONTROL_MARKS = str.maketrans("", "", "\ufeff\u200b\u200e\u200f")


def read(text: str) -> Board:
    """A puzzle as people pass them on.

    81 characters; nine lines; with rulers and spaces; separated by commas, semicolons or tabs, where an empty field
    is a blank; with ``#`` comments and ``[Sections]``. Blanks are ``0 . _ * ? x -``. Of several puzzles, the first is
    read. Digits may contradict each other: ``check`` says so.

    Raises:
        PasteError: with what is wrong with the text.
    """
    if len(text) > MOST_TEXT:
        raise PasteError(tr("That is too long for a puzzle; paste 81 characters, 0 or . for a blank."))
    lines = _lines(text)
    if not lines:
        raise PasteError(tr("There is no text to paste; copy a puzzle of 81 characters first."))
    alone = next((cells for line in lines for cells in _fields_of_81(line)), None)
    if alone is not None:
        return Board(alone)
    read_rows = [row for line in lines if (row := _row(line))]
    # A line of hyphens is a ruler or a row of blanks: it is a row only where the rows would be too few without it.
    for rows in (
        [row for row, ruler in read_rows if not ruler],
        [row for row, _ in read_rows if len(row) == 9],
        [row.replace("-", "") for row, _ in read_rows],
    ):
        if sum(map(len, rows)) == SIZE:
            return Board("".join(BLANK if cell in _BLANKS else cell for row in rows for cell in row))
    count = sum(len(row) for row, ruler in read_rows if not ruler)
    raise PasteError(
        trn("The text has {count} cell; a puzzle has 81.", "The text has {count} cells; a puzzle has 81.", count)
    )


def _lines(text: str) -> list[str]:
    """What is left of a text without comments and headings; the first section where there are several."""
    kept: list[str] = []
    plain = unicodedata.normalize("NFKC", text.replace("\u00b7", ".")).translate(_CONTROL_MARKS)
    for line in plain.splitlines():
        bare = line.partition("#")[0].strip("\r\n ")
        if bare.startswith("[") and bare.endswith("]"):
            if kept:
                break
        elif bare:
            kept.append(bare)
    return kept


def _fields_of_81(line: str) -> list[str]:
    """The puzzles that fill a field of a line each; several tell a puzzle from its solution or its name."""
    found = []
    for field in re.split(r"[,;\t]", line) + line.split():
        bare = field.strip().strip("\"'")
        if len(bare) == SIZE and all(cell in _BLANKS or cell in sudoku.DIGITS for cell in bare):
            found.append("".join(BLANK if cell in _BLANKS else cell for cell in bare))
    return found


def _is_rule(line: str) -> bool:
    """Whether a line is drawn, and has no cells for certain."""
    if not set(line) <= _RULES or not set(line) & {"-", "="}:
        return False
    return bool(set(line) & {"+", "="}) or sum(char in _BLANKS for char in line) != 9


def _row(line: str) -> tuple[str, bool] | None:
    """The cells of a line, and whether it may be a ruler; None for one that is a ruler for certain.

    Raises:
        PasteError: a character that no puzzle has.
    """
    if _is_rule(line):
        return None
    separator = next((mark for mark in ",;\t" if mark in line), None)
    if separator is not None:
        fields = [field.strip().strip("\"'") for field in line.split(separator)]
        if len(fields) % 9 == 1 and not fields[-1]:
            fields.pop()  # the line ends in a separator
        line = "".join(field or BLANK for field in fields)
    cells = "".join(char for char in line if not (char.isspace() or char in _IGNORED or "\u2500" <= char <= "\u257f"))
    strange = next((char for char in cells if char not in _BLANKS and char not in sudoku.DIGITS), None)
    if strange is not None:
        raise PasteError(
            tr(
                "The text has the character {character}; a puzzle has digits, 0 or . for a blank.",
                character=repr(strange),
            )
        )
    return (cells, set(cells) == {"-"}) if cells else None
