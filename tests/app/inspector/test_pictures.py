"""The pictures of a run's prompt next to its canvas, and in the page that replays it."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.export import html
from app.export.html import write
from app.export.run import Options
from app.inspector.canvas.page_cells import PromptPictures
from app.inspector.run_pictures import PictureView, picture_of
from app.player.player import Player
from engine import Trace
from engine.catalog import ASSETS
from engine.pictures import Picture
from engine.text.message import image_of
from tests.engine import traces
from tests.engine.drawn import picture

RED, BLUE = picture("red"), picture("blue")


def run(*there: Picture) -> Trace:
    """A run that was shown both, with the bytes of some."""
    images = (image_of(RED), image_of(BLUE))
    message = {"role": "user", "content": "prompt", "images": images}
    made = Trace(header=traces.header(messages=(message, message)), pictures=there)
    for event in traces.made_up():
        made.append(event)
    return made


@pytest.mark.parametrize("height", [0, 4, 12, 60])
def test_a_board_on_a_card_is_painted_at_any_height(qtbot: QtBot, height: int) -> None:
    """A card can be a few pixels high before it is laid out."""
    view = PictureView()
    qtbot.addWidget(view)
    view.set_picture(picture_of(ASSETS / "traces" / "sudoku-hard.sltrace"))
    view.resize(200, height)
    assert view.grab().height() == height


def test_each_picture_is_next_to_the_canvas_once(qtbot: QtBot, player: Player) -> None:
    view = PromptPictures(player)
    qtbot.addWidget(view)
    player.open(run(RED))
    assert not view.isHidden()
    assert [thumb.shown.digest for thumb in view.thumbs] == [RED.digest, BLUE.digest]
    qtbot.waitUntil(lambda: not any(thumb._loading.is_busy for thumb in view.thumbs))
    assert view.thumbs[0].image is not None
    assert view.thumbs[1].is_missing
    player.open(Trace(header=traces.header()))
    assert view.isHidden()


def data_of(tmp_path: Path, *, prompt: bool) -> dict[str, object]:
    list(write(run(RED), tmp_path / "a.html", Options(prompt=prompt)))
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', (tmp_path / "a.html").read_text())
    data = json.loads(found.group(1))
    assert isinstance(data, dict)
    return data


def test_the_page_of_a_run_shows_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[str]()
    decode = html.data_url
    monkeypatch.setattr(html, "data_url", lambda *given: threads.add(threading.current_thread().name) or decode(*given))
    pictures = data_of(tmp_path, prompt=True)["pictures"]
    assert isinstance(pictures, list)
    assert [url[:23] for url in pictures] == ["data:image/jpeg;base64,"]
    assert threads == {"export"}  # not the window's
    assert "pictures" not in data_of(tmp_path, prompt=False)
