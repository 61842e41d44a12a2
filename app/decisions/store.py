"""Stores the questions and their state between two starts of the app, as a file in the data folder."""

from __future__ import annotations

from pathlib import Path

from app.state.decisions.sheet import QuestionSheet
from app.system.folders import ensure
from engine import SafelightError
from engine.files import read_json, write_json

NAME = "questions.json"
FILE_BYTES = 32 * 2**20  # far more than usual questions and the longest text, 100 000 characters, take
STATE = "state"


def read_sheet(folder: Path) -> tuple[QuestionSheet, str] | None:
    """Returns the stored questions and text; None if the file is missing or cannot be read."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        raw = read_json(path, most=FILE_BYTES)
    except SafelightError:
        return None
    sheet = QuestionSheet.from_json(raw)
    state = raw.get(STATE) if isinstance(raw, dict) else None
    return None if sheet is None else (sheet, state if isinstance(state, str) else "")


def write_sheet(folder: Path, sheet: QuestionSheet, state: str) -> None:
    """Replaces the stored questions and text.

    Raises:
        SafelightError: The folder or the file cannot be written.
    """
    write_json(ensure(folder) / NAME, {**sheet.to_json(), STATE: state})
