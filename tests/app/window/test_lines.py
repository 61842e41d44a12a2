"""A times table keeps its lines in the inspector's canvas and in an exported page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.canvas.geometry import Geometry
from app.canvas.view import CanvasView
from app.context import AppContext
from app.export.run import Options, export
from app.inspector.controller import InspectorController
from engine import Recording, gallery, open_trace


def rows(view: CanvasView, trace: Recording) -> list[str]:
    """Returns the text of each row of a canvas, without end tokens."""
    grid, block = view.grid, view.block
    assert block is not None
    found = [""] * grid.rows
    for place, token in enumerate(block.tokens(calm=True).tolist()[: block.text_length]):
        found[grid.place_of(place)[0]] += trace.piece(token)
    return [row for row in found if row]


def test_a_times_table_keeps_its_lines(qtbot: QtBot, open_context: Callable[..., AppContext], tmp_path: Path) -> None:
    trace = open_trace(next(one.path for one in gallery() if one.path.stem == "times-table"))
    inspector = InspectorController(open_context(None))
    qtbot.addWidget(inspector.widget)
    inspector.widget.resize(1280, 800)
    inspector.widget.show()
    inspector.inspect(trace, 0)
    player, view = inspector.page.player, inspector.widget.findChild(CanvasView, "inspector-canvas")
    replay = player.replay
    assert view is not None
    assert replay is not None
    laid_out: dict[int, set[Geometry]] = {}
    text: list[str] = []
    for place, frame in enumerate(replay.frames):
        player.go(place)
        laid_out.setdefault(frame.block, set()).add(view.grid)
        if place + 1 == len(replay.frames) or replay.frames[place + 1].block != frame.block:
            text += rows(view, trace)
    assert {len(grids) for grids in laid_out.values()} == {1}  # no cell moves from the first noise to the end
    assert "".join(text) == trace.text
    assert all(row.endswith("\n") for row in rows(view, trace)[:-1])

    list(export(trace, tmp_path / "run.html", Options("html")))
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    blocks = json.loads(found.group(1))["blocks"]
    starts = [sum(len(event.tokens) for event in trace.committed[:number]) for number in range(len(blocks))]
    ends = [start + end for start, block in zip(starts, blocks, strict=True) for end in block["lineEnds"]]
    assert ends == [place for place, letter in enumerate(trace.text) if letter == "\n"]
