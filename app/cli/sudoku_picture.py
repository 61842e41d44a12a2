"""``safelight sudoku --image``: reads the puzzle of a picture with Safelight Sight."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from app.cli import terminal
from app.cli.loading import load_alone
from engine import SIGHT, SafelightError
from engine.pictures import read_picture
from engine.service import read_rows
from engine.tasks import sudoku
from engine.tasks.sudoku_pictures import ReadBoard


def read(args: argparse.Namespace, stop: threading.Event) -> ReadBoard:
    """Reads the puzzle of the given picture; prints it, unless JSON is wanted.

    Raises:
        SafelightError: no puzzle can be read from it, or what was read contradicts itself.
        KeyboardInterrupt: it was stopped.
    """
    picture = read_picture(Path(args.image))
    as_it_is = {
        "model": SIGHT,
        "adapter": None,
        "dtype": "auto",
        "quantization": "auto",
    }  # the options are the solver's
    runner = load_alone(argparse.Namespace(**{**vars(args), **as_it_is}), SIGHT, stop)
    rows = []
    with terminal.progress(f"Reading {Path(args.image).name}") as show:
        for row in read_rows(runner, picture, stop):
            rows.append(row)
            show(len(rows) / 9)
    if stop.is_set():
        raise KeyboardInterrupt
    board = ReadBoard.from_rows(rows).checked()
    if not args.json:
        print(_described(board), flush=True)
    try:
        sudoku.parse(board.cells)
    except sudoku.PuzzleError as error:
        raise SafelightError(f"{args.image} was not read right: {error}; correct it, and give it as PUZZLE") from None
    return board


def _described(board: ReadBoard) -> str:
    """Returns the line above a board that was read."""
    count = len(board.doubts)
    places = ", ".join(f"row {cell // 9 + 1} column {cell % 9 + 1}" for cell in board.doubts)
    doubts = f"{count} cell{'s are' if count != 1 else ' is'} unsure: {places}" if count else "no cell is unsure"
    return f"Read {board.cells.replace('0', '.')}; {doubts}. Check it against the picture."
