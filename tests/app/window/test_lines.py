"""A times table stands on its lines wherever it is shown: asked of the real model in the real window."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from app.bridge.engine_thread import EngineLink
from app.canvas.geometry import Geometry
from app.canvas.view import CanvasView
from app.chat.markdown_view.section import Section
from app.export.run import Options, export
from app.main import make_window
from app.state.chat.conversation import Answer
from app.state.run.replay import Replay
from app.window.main_window import MainWindow
from engine import MINI
from engine.service import LocalBackend
from engine.tasks import skills

PROMPT = "Times table of 5 up to 9."
LINES = str(skills.solve(PROMPT)).split("\n")


@pytest.fixture
def window(qtbot: QtBot, settings: QSettings) -> Iterator[MainWindow]:
    settings.setValue("canvas/pace", "inf")
    made = make_window(EngineLink(LocalBackend()), settings, 1)
    qtbot.addWidget(made)
    made.resize(1280, 800)
    made.show()
    made.context.load(MINI)
    qtbot.waitUntil(lambda: made.context.model is not None, timeout=30_000)
    yield made
    made.close()


def shown_lines(section: Section) -> list[str]:
    """A text as it stands on the page, line by line."""
    lines: dict[float, str] = {}
    for place in range(section.end):
        top = section.span_rect(place, place + 1).top()
        lines[top] = lines.get(top, "") + section.document.characterAt(place)
    return [line.rstrip("\u2028") for _, line in sorted(lines.items())]


def rows(view: CanvasView, answer: Answer) -> list[str]:
    """Returns the text of each row of a canvas, without end tokens."""
    grid, block = view.grid, view.block
    assert block is not None
    assert answer.trace is not None
    found = [""] * grid.rows
    for place, token in enumerate(block.tokens(calm=True).tolist()[: block.text_length]):
        found[grid.place_of(place)[0]] += answer.trace.piece(token)
    return [row for row in found if row]


def test_a_times_table_keeps_its_lines_in_chat_inspector_and_page(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    page = window.pages.chat().page
    window.pages.chat().sending.send(PROMPT)
    session = window.context.session
    qtbot.waitUntil(lambda: session.chat.active is None and page.turns[-1].answer.text.isVisible(), timeout=30_000)
    answer, view = session.chat.turns[-1].answer, page.turns[-1].answer
    assert answer.text.split("\n") == LINES
    assert [line for section in view.text.sections for line in shown_lines(section)] == LINES
    view.canvas_toggle.click()
    laid = [row for canvas in view.canvases for row in rows(canvas, answer)]
    assert "".join(laid).split("\n") == LINES
    assert all(row.endswith("\n") for row in rows(view.canvases[0], answer)[:-1])

    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer, 0)
    inspected = window.findChild(CanvasView, "inspector-canvas")
    qtbot.waitUntil(lambda: inspected.block is not None and inspected.isVisible())
    replay = Replay(answer.trace)
    laid_out: dict[int, set[Geometry]] = {}
    player = window.pages.inspector().page.player
    for place, frame in enumerate(replay.frames):
        player.go(place)
        laid_out.setdefault(frame.block, set()).add(inspected.grid)
    assert [len(grids) for grids in laid_out.values()] == [1, 1]  # no cell moves from the first noise to the end
    player.go(replay.first_of(1) - 1)
    assert rows(inspected, answer) == rows(view.canvases[0], answer)
    check_page(answer.trace, tmp_path)


def check_page(trace: Any, tmp_path: Path) -> None:
    list(export(trace, tmp_path / "run.html", Options("html")))
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    ends = [
        end + 64 * number
        for number, block in enumerate(json.loads(found.group(1))["blocks"])
        for end in block["lineEnds"]
    ]
    assert ends == [place for place, letter in enumerate("\n".join(LINES)) if letter == "\n"]
