"""Remembers the questions between two starts, as a file in the data folder."""

from __future__ import annotations

from pathlib import Path

from app.state.decisions.sheet import QuestionSheet
from app.system.folders import ensure
from engine import SafelightError
from engine.files import read_json, write_json

NAME = "questions.json"
FILE_BYTES = 8 * 2**20


def read_sheet(folder: Path) -> QuestionSheet | None:
    """What was written last; None where there is nothing that can be read."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        return QuestionSheet.from_json(read_json(path, most=FILE_BYTES))
    except SafelightError:
        return None


def write_sheet(folder: Path, sheet: QuestionSheet) -> None:
    """Write the questions in place of those before.

    Raises:
        SafelightError: the folder or the file cannot be written.
    """
    write_json(ensure(folder) / NAME, sheet.to_json())
