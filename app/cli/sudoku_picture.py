"""``safelight sudoku --image``: reads the puzzle of a picture with Safelight Sight."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from app.cli import terminal
from app.cli.loading import ChosenBackend
from engine import SIGHT, SafelightError
from engine.pictures import read_picture
from engine.service import LoadRequest, load_sibling, read_rows
from engine.tasks import sudoku
from engine.tasks.sudoku_pictures import ReadBoard


def read(args: argparse.Namespace, stop: threading.Event) -> ReadBoard:
    """Reads the puzzle of the given picture; prints it, unless JSON is wanted.

    Raises:
        SafelightError: no puzzle can be read from it, or what was read contradicts itself.
        KeyboardInterrupt: it was stopped.
    """
    picture = read_picture(Path(args.image))
    as_it_is = argparse.Namespace(device=args.device, dtype="auto", quantization="auto")  # the options are the solver's
    with terminal.note(f"Loading {SIGHT} …"):
        load = LoadRequest(SIGHT, SIGHT, args.threads, cancel=stop)
        runner = load_sibling(ChosenBackend(as_it_is), load, lambda _share: None)
    if runner is None:
        raise KeyboardInterrupt
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
