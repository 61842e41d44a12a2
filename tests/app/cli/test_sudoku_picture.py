"""``safelight sudoku --image``: a picture that is read, one that contradicts itself, and what is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli import sudoku
from app.cli.main import main
from engine.tasks.sudoku_pictures import ReadRow
from tests.app.cli.calling import Capture, refused
from tests.app.sudoku.scripted import PUZZLE, SOLVED
from tests.engine.seeing import picture


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "page.png"
    path.write_bytes(picture(60, 40).data)
    return str(path)


def reads(monkeypatch: pytest.MonkeyPatch, board: str) -> None:
    """Whatever the picture shows, this is read, unsure of each row's last cell."""

    def rows(*_given: Any) -> Iterator[ReadRow]:
        yield from (ReadRow(board[start : start + 9], (0.99,) * 8 + (0.2,)) for start in range(0, 81, 9))

    monkeypatch.setattr(sudoku, "read_rows", rows)


def test_what_was_read_is_printed_and_solved(capsys: Capture, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads(monkeypatch, PUZZLE)
    assert main(["sudoku", "--image", file]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Read {PUZZLE.replace('0', '.')}; 9 cells are unsure: row 1 column 9, row 2 column 9,")
    assert "\nSolved: the puzzle's only solution. (30 givens; " in said
    assert main(["sudoku", "--image", file, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["puzzle"], record["answer"], record["doubts"]) == (PUZZLE, SOLVED, list(range(8, 81, 9)))


def test_a_misread_puzzle_is_printed_to_be_corrected(
    capsys: Capture, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads(monkeypatch, "5" + PUZZLE[:80])
    assert main(["sudoku", "--image", file]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("Read 553..7...")
    assert "page.png was not read right: puzzle contradicts itself: 5 stands at row 1, column 1" in err
    assert err.count("\n") == 1


def test_what_is_no_picture_is_one_line(capsys: Capture, tmp_path: Path, file: str) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    for arguments, said in (
        (["--image", str(tmp_path / "notes.txt")], "is in an unsupported format"),
        (["--image", str(tmp_path / "none.png")], "cannot be read"),
        (["--image", file, PUZZLE], "leave out PUZZLE and --file"),
    ):
        refused(capsys, said, "sudoku", *arguments)
