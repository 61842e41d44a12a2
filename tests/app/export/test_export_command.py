"""``safelight export``, as it is called."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from PIL import Image

from app.cli import export
from app.cli.options import Parser
from app.design.tokens import PAPER
from app.export.pictures import CELL
from app.system.i18n import size
from engine import SafelightError, Trace, gallery

from .conftest import whole

pytestmark = pytest.mark.usefixtures("qapp")


def call(*words: str) -> int:
    root = Parser(prog="safelight")
    commands = root.add_subparsers(parser_class=Parser)
    export.add(commands)
    args: argparse.Namespace = root.parse_args(["export", *words])
    return int(args.run(args))


@pytest.fixture
def trace(several: Trace, tmp_path: Path) -> str:
    several.save(tmp_path / "run.sltrace")
    return str(tmp_path / "run.sltrace")


def test_a_trace_file_becomes_what_its_name_ends_like(
    trace: str, several: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run.html", "run.json", "run.gif", "run.png", "run.mp4"):
        assert call(trace, str(tmp_path / name)) == 0
        written = (tmp_path / name).stat().st_size
        assert written > 1000
        assert capsys.readouterr().out == f"wrote {tmp_path / name}, {size(written)}\n"
    assert (tmp_path / "run.html").read_bytes() == whole(several, tmp_path / "memory.html").read_bytes()
    for name in ("none.sltrace", "run.json"):  # which are no traces
        with pytest.raises(SafelightError):
            call(str(tmp_path / name), str(tmp_path / "run.html"))


def test_a_sudoku_is_a_board_or_its_tokens(tmp_path: Path) -> None:
    run = str(next(one.path for one in gallery() if one.path.stem == "sudoku-hard"))
    heights = []
    for tokens in ((), ("--tokens",)):
        assert call(run, str(tmp_path / "run.png"), *tokens) == 0
        with Image.open(tmp_path / "run.png") as image:
            heights.append(image.height)
        call(run, str(tmp_path / "run.html"), *tokens)
        assert f'"showsBoard":{"false" if tokens else "true"}' in (tmp_path / "run.html").read_text()
    assert heights[0] > 9 * CELL
    assert heights[0] != heights[1]


def test_options(trace: str, several: Trace, tmp_path: Path) -> None:
    call(trace, str(tmp_path / "run.json"), "--no-prompt")
    assert several.prompt not in (tmp_path / "run.json").read_text()
    assert json.loads((tmp_path / "run.json").read_text())["header"]["messages"] == []
    call(trace, str(tmp_path / "run.gif"), "--speed", "10", "--steps", "noise,1-2", "--scale", "2")
    with Image.open(tmp_path / "run.gif") as image:
        assert image.n_frames == 3
        assert image.info["duration"] == 100
    call(trace, str(tmp_path / "step"), "--format", "png", "--raw", "--theme", "paper")
    with Image.open(tmp_path / "step") as image:
        assert image.convert("RGB").getpixel((0, 0)) == tuple(bytes.fromhex(PAPER.surface_sunken[1:]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run.bmp"], "does not end in any of"),
        (["run.gif", "--speed", "0"], "the speed must be"),
        (["run.png", "--steps", "99"], "has no step"),
        (["none/run.html"], "there is no folder"),
    ],
)
def test_refusals(words: list[str], message: str, trace: str, tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match=message):
        call(trace, str(tmp_path / words[0]), *words[1:])
