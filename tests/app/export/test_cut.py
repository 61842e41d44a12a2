"""Blocks too long to be shown whole are exported in part and with a sentence; pages are packed in pieces."""

from __future__ import annotations

import base64
import itertools
import zlib
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings

from app.export import html as page
from app.export.run import Options, export
from app.inspector.export_dialog import ExportDialog
from app.player.player import Player
from app.state.run.replay import Replay
from engine import Trace

from .test_export_command import call

pytestmark = pytest.mark.usefixtures("qapp")
CUT = "Block 1 is too long to be shown whole; its first 2 steps are."


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.state.run.replay.BLOCK_STEPS", 2)


def returned(run: Trace, path: Path, options: Options) -> str:
    work = export(run, path, options)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("format", ["html", "png"])
def test_what_is_cut_is_said(format: Any, real: Trace, tmp_path: Path) -> None:
    path = tmp_path / "run.out"
    assert returned(real, path, Options(format)) == CUT
    assert path.stat().st_size > 1000


@pytest.mark.usefixtures("bounded")
def test_the_command_and_the_dialog_say_it(
    real: Trace, tmp_path: Path, qtbot: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    real.save(tmp_path / "run.sltrace")
    assert call(str(tmp_path / "run.sltrace"), str(tmp_path / "run.html")) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"wrote {tmp_path / 'run.html'}, ")
    assert said.err == f"safelight: {CUT}\n"
    player = Player()
    player.open(real)
    dialog = ExportDialog(player, None, QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    qtbot.addWidget(dialog)
    with qtbot.waitSignal(dialog.exported):
        dialog.write(tmp_path / "again.html")
    assert dialog.message.text().startswith("Written: ")
    assert dialog.message.text().endswith(f"\n{CUT}")


def test_a_block_is_packed_in_pieces(large: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Replay(large).record(0)
    monkeypatch.setattr(page, "PIECE_BYTES", 10_000)
    work, rests = page.pack(record, page.Vocabulary()), itertools.count()
    packed = None
    while packed is None:
        try:
            next(work)
            next(rests)
        except StopIteration as end:
            packed = end.value
    cells = record.steps * record.length
    size = 6 * record.length + 12 * cells + 5 * cells * packed["width"]
    assert len(zlib.decompress(base64.b64decode(packed["data"]))) == size
    assert next(rests) >= size // 10_000  # a rest after each
