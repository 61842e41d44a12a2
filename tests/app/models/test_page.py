"""The models page against a hub on the loopback interface and the real embedded model."""

from __future__ import annotations

import dataclasses
import random
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

import app.models.controller
import engine.hub.client
import engine.hub_http
import engine.memory.plan
from app.models import words
from app.models.controller import ModelsController
from app.system.secret import HUB_TOKEN, Secret
from engine import EMBEDDED, MINI, PublishedModel
from engine.catalog import SMALL, resolve
from engine.hub.record import size_of
from engine.hub_cache import repo_folder
from engine.memory.plan import Plan
from engine.quant import PRECISIONS
from tests.app.models.contexts import SOON, answer, offered, press, until
from tests.engine.hub.server import REVISION, Hub, serving

ROOT = Path(__file__).resolve().parents[3]
REPO, GATED = "someone/skills", "someone/gated"
WEIGHTS = "model.safetensors"


class SessionTokens(Secret):
    """A keyring that does not work, without asking the machine's own."""

    def __init__(self) -> None:
        super().__init__(HUB_TOKEN)
        self.token = ""

    def read(self) -> str:
        return self.token

    def write(self, token: str) -> str:  # type: ignore[override]
        self.token = token
        return "session" if token else "nowhere"


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines about memory must not depend on what else runs here."""
    monkeypatch.setattr(engine.memory.plan, "free_bytes", lambda _: 24 * 10**9)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(engine.hub.client, "RECEIVED_BYTES", 5_000)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None))
    skills = {path.name: path.read_bytes() for path in resolve(MINI).iterdir()}
    gated = skills | {WEIGHTS: random.Random(5).randbytes(300_000)}
    with serving(Hub({REPO: skills, GATED: gated})) as running:
        yield running


@pytest.fixture
def open_models(hub: Hub, open_page: Callable[..., ModelsController]) -> Iterator[Callable[[], ModelsController]]:
    published = (
        PublishedModel(REPO, "Skills", "small tasks", 3_200_000, "26b-a4b", "auto", listed="2026-11-21"),
        PublishedModel(GATED, "Gated", "behind a door", 3_200_001, "26b-a4b", "int4", is_gated=True),
    )
    yield lambda: open_page(is_shown=False, published=published, endpoint=hub.endpoint, tokens=SessionTokens())
    hub.gate.set()


@pytest.fixture
def models(open_models: Callable[[], ModelsController]) -> ModelsController:
    return open_models()


def half(hub: Hub, qtbot: QtBot, models: ModelsController) -> Path:
    """Starts a download and lets it stall in the middle of the weights; returns the file that is coming in."""
    hub.stall_after = 200_000
    press(qtbot, models.page.rows[REPO], "download")

    def size() -> int:
        return max(map(size_of, repo_folder(REPO).glob("blobs/*.incomplete")), default=0)

    qtbot.waitUntil(lambda: size() > 190_000, timeout=SOON)
    return next(repo_folder(REPO).glob("blobs/*.incomplete"))


def test_a_model_is_downloaded_loaded_and_deleted(qtbot: QtBot, models: ModelsController) -> None:
    row, place = models.page.rows[REPO], repo_folder(REPO) / "snapshots" / REVISION
    assert row.status.text() == "Not downloaded"
    assert row.buttons["download"].text() == "Download 3.2 MB"
    press(qtbot, row, "download")
    with qtbot.waitSignal(models._context.slot.models_changed, timeout=SOON) as changed:
        until(qtbot, row, "load", "convert", "delete")
    assert (str(place), "Skills") in changed.args[0]
    assert row.status.text() == "3.2 MB on disk"
    with qtbot.waitSignal(models._context.load_asked) as asked:
        press(qtbot, row, "load")
    assert asked.args == [str(place)]
    models._context.show_loaded(str(place))
    assert offered(row) == ["unload", "convert", "delete"]
    assert not row.buttons["delete"].isEnabled()
    assert row.buttons["delete"].toolTip() == "Unload it first"
    with qtbot.waitSignal(models._context.unload_asked):
        press(qtbot, row, "unload")
    models._context.show_loaded(None)
    press(qtbot, row, "delete")
    assert "This frees 3.2 MB on disk. Other programs" in answer(qtbot, models, "Delete")
    until(qtbot, row, "download")
    assert row.progress.text() == "✓ Deleted: 3.2 MB freed"
    assert not repo_folder(REPO).exists()


def test_closing_pauses_and_the_next_start_resumes(
    qtbot: QtBot, hub: Hub, models: ModelsController, open_models: Callable[[], ModelsController]
) -> None:
    part = half(hub, qtbot, models)
    threading.Timer(0.05, hub.gate.set).start()
    models._context.close()
    here = part.stat().st_size
    again = open_models()
    row = again.page.rows[REPO]
    assert (row.status.text(), offered(row)) == ("Paused", ["resume", "cancel"])
    known = sum(path.stat().st_size for path in part.parent.iterdir())
    assert row.disk.text().startswith(f"✓ Disk: {known / 1e6:.1f} MB are here; the other ")
    assert REPO not in dict(again._context.slot.models)
    press(qtbot, row, "resume")
    until(qtbot, row, "load", "convert", "delete")
    assert hub.sent_of(WEIGHTS)[-1].start == here


def test_cancel_removes_and_asks_first_where_much_is_lost(
    qtbot: QtBot, hub: Hub, models: ModelsController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.models.controller, "WORTH_ASKING", 200_000)
    row = models.page.rows[REPO]
    for is_paused in (False, True):
        half(hub, qtbot, models)
        if is_paused:
            press(qtbot, row, "pause")
            assert row.status.text() == "Pausing…"
            hub.gate.set()
            until(qtbot, row, "resume", "cancel")
        before = offered(row)
        press(qtbot, row, "cancel")
        assert answer(qtbot, models, "Keep").startswith("Remove what is here of Skills? This frees 0.")
        assert offered(row) == before
        press(qtbot, row, "cancel")
        answer(qtbot, models, "Delete")
        hub.gate.set()
        until(qtbot, row, "download")
        assert not repo_folder(REPO).exists()
        hub.gate.clear()


def test_a_gated_model_asks_for_a_token(qtbot: QtBot, hub: Hub, models: ModelsController, settings: QSettings) -> None:
    hub.token = "hf_right"
    row = models.page.rows[GATED]
    assert row.token.isVisibleTo(row)
    assert f"{hub.endpoint}/{GATED}" in row.token.explanation.text()
    press(qtbot, row, "download")
    qtbot.waitUntil(lambda: "accept its licence" in row.notice.message.text(), timeout=SOON)
    qtbot.keyClicks(row.token.edit, "hf_right")
    qtbot.keyClick(row.token.edit, Qt.Key.Key_Return)
    assert row.token.edit.text() == ""
    qtbot.waitUntil(lambda: "kept until Safelight is closed" in row.token.status.text(), timeout=SOON)
    press(qtbot, row, "download")
    until(qtbot, row, "load", "delete")
    assert not row.notice.isVisibleTo(row)
    assert not row.token.isVisibleTo(row)
    settings.sync()
    assert "hf_right" not in Path(settings.fileName()).read_text()


def test_offline_stops_downloads_and_starts_none(qtbot: QtBot, hub: Hub, models: ModelsController) -> None:
    half(hub, qtbot, models)
    second = models.page.rows[GATED]
    press(qtbot, second, "download")
    assert (second.status.text(), offered(second)) == ("Waiting for Skills", ["cancel"])
    press(qtbot, second, "cancel")
    assert (second.status.text(), offered(second)) == ("Not downloaded", ["download"])
    models._context.set_offline(True)
    hub.gate.set()
    until(qtbot, models.page.rows[REPO], "resume", "cancel")
    asked = hub.requests
    for key, action in ((REPO, "resume"), (GATED, "download")):
        made = models.page.rows[key].buttons[action]  # type: ignore[index]
        assert not made.isEnabled()
        assert "Offline is on" in made.toolTip()
        models._do(key, action)  # a shortcut, say
        assert "nothing is downloaded" in models.page.rows[key].notice.message.text()  # at once: nothing is waited for
    assert hub.requests == asked
    assert "nothing is downloaded" in models.page.place.text()
    models._context.set_offline(False)
    assert models.page.place.text().startswith("Downloads go to")
    press(qtbot, models.page.rows[REPO], "resume")
    until(qtbot, models.page.rows[REPO], "load", "convert", "delete")


def test_convert_load_delete(qtbot: QtBot, models: ModelsController, tmp_path: Path) -> None:
    source = tmp_path / "my-model"
    shutil.copytree(resolve(MINI), source)
    models.add_folder(source)
    row = models.page.rows[str(source)]
    packed = models._folder / "my-model-packed"
    press(qtbot, row, "convert")
    assert row.status.text() == "Converting"
    qtbot.waitUntil(lambda: str(packed) in models.page.rows, timeout=SOON)
    made = models.page.rows[str(packed)]
    until(qtbot, made, "load", "delete")
    assert offered(row) == ["load", "remove"]  # it is converted already
    assert (str(packed), "my-model, packed") in (models._context.slot.models)
    press(qtbot, made, "delete")
    size = sum(path.stat().st_size for path in packed.iterdir())
    assert f"This frees {size / 1e6:.1f} MB on disk" in answer(qtbot, models, "Keep")
    assert packed.exists()
    press(qtbot, made, "delete")
    answer(qtbot, models, "Delete")
    qtbot.waitUntil(lambda: str(packed) not in models.page.rows, timeout=SOON)
    assert list(models._folder.iterdir()) == []
    assert offered(row) == ["load", "convert", "remove"]


def test_a_conversion_is_paused_goes_on_and_is_cancelled_without_its_source(
    qtbot: QtBot, open_models: Callable[[], ModelsController], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, packed, begun = tmp_path / "my-model", tmp_path / "models" / "my-model-packed", threading.Event()

    def slow(_source: Path, destination: Path, _to: str, _device: object, progress: Any, cancel: Any, **_: Any) -> None:
        destination.mkdir(parents=True, exist_ok=True)
        (destination / "safelight-store.partial.json").write_text('{"source": "my-model"}')
        progress(0.5)
        begun.set()
        while not cancel.is_set():
            cancel.cancel.wait(0.005)
        raise engine.SafelightError("the conversion was cancelled")

    monkeypatch.setattr("engine.models.folder.quantize", slow)
    shutil.copytree(resolve(MINI), source)
    models = open_models()
    models.add_folder(source)
    models._context.show_loaded(str(source))  # what answers can be packed meanwhile
    row = models.page.rows[str(source)]
    press(qtbot, row, "convert")
    qtbot.waitUntil(begun.is_set, timeout=SOON)
    models.refresh()
    assert str(packed) not in models.page.rows  # it is shown with its source
    press(qtbot, row, "pause")
    until(qtbot, row, "unload", "remove")
    assert not row.notice.isVisibleTo(row)
    begun.clear()
    models = open_models()
    row = models.page.rows[str(packed)]
    assert (row.status.text(), offered(row)) == ("Conversion paused", ["resume", "cancel"])
    assert "convert" not in offered(models.page.rows[str(source)])
    press(qtbot, row, "resume")
    qtbot.waitUntil(begun.is_set, timeout=SOON)
    press(qtbot, row, "cancel")
    qtbot.waitUntil(lambda: not packed.exists(), timeout=SOON)
    until(qtbot, models.page.rows[str(source)], "load", "convert", "remove")
    assert source.exists()


def test_folders_of_the_user(
    qtbot: QtBot,
    models: ModelsController,
    open_models: Callable[[], ModelsController],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_args: str(place))
    qtbot.mouseClick(models.page.add, Qt.MouseButton.LeftButton)
    assert "is not a model folder: it has no config.json" in models.page.notice.message.text()
    assert str(place) not in models.page.rows
    shutil.copytree(resolve(MINI), place, dirs_exist_ok=True)
    qtbot.mouseClick(models.page.add, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(models.page.add, Qt.MouseButton.LeftButton)  # twice makes one
    assert not models.page.notice.isVisibleTo(models.page)
    again = open_models()
    assert [key for key, entry in again._entries.items() if entry.group == "local"] == [str(place)]
    place.rename(tmp_path / "moved")
    again.refresh()
    row = again.page.rows[str(place)]
    assert (row.status.text(), offered(row)) == ("The folder is gone", ["remove"])
    press(qtbot, row, "remove")
    assert str(place) not in again.page.rows
    assert (tmp_path / "moved" / "config.json").exists()


def test_the_page_waits_for_nothing_heavy() -> None:
    heavy = ("torch", "huggingface_hub", "httpx2", "keyring", "engine.memory.plan")
    code = f"import sys, app.models.controller; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_download_without_a_network_says_so_at_once(
    qtbot: QtBot, hub: Hub, open_models: Callable[[], ModelsController], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.hub.client, "SOON", 0.01)
    monkeypatch.setattr(engine.hub_http, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with monkeypatch.context() as patch:
            patch.setattr(hub, "port", silent.getsockname()[1])
            row = open_models().page.rows[REPO]
        press(qtbot, row, "download")
        assert row.running.text().startswith("Asking 127.0.0.1")
        qtbot.waitUntil(lambda: row.running.text().startswith("No answer from the hub yet."), timeout=SOON)
        qtbot.waitUntil(lambda: not row.notice.isHidden(), timeout=SOON)
        assert row.notice.message.text().startswith("There is no connection to http")
        assert row.notice.message.text().endswith(".")
        until(qtbot, row, "download")


CPU = Plan("m", "cpu", "bfloat16", "as stored", PRECISIONS["int4"], 32_768, {"experts": 17 * 10**9, "process": 10**9},
    25 * 10**9, 32 * 2**30, 262_144, "", ())  # fmt: skip
CARD = {"device": "cuda:0"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "✓ Runs on the processor in 4 bits, slowly (17.0 GB at 32k tokens)"),
        ({"free_bytes": 10**10, "longest": 0}, "✕ Needs 17.0 GB of memory and 9.0 GB are free: close other programs"),
        (
            {"free_bytes": 10**10, "device_bytes": 2**34, "longest": 0},
            "✕ Too large for this computer: needs 17.0 GB of memory",
        ),
        (CARD | {"device_bytes": 25 * 10**9}, "✓ Fits your 24 GB card at 32k tokens of context (17.0 GB)"),
        (CARD | {"quantization": "int4"}, "✓ Fits your 32 GB card in 4 bits at 32k tokens of context (17.0 GB)"),
        (CARD | {"free_bytes": 10**10, "longest": 8192}, "✓ Fits your 32 GB card at 8k tokens of context, not at 32k"),
    ],
)
def test_advice_is_about_this_machine(changes: dict[str, Any], line: str) -> None:
    plan = dataclasses.replace(CPU, **changes)
    assert words.memory_line(plan, loaded=False, held_bytes=0) == line
    assert words.memory_line(plan, loaded=True, held_bytes=0).startswith("Takes 17.0 GB of ")
    assert len(line) <= 72  # a line of the narrowest window


def test_models_with_untried_weights_are_one_folded_row(qtbot: QtBot, models: ModelsController) -> None:
    def listed() -> list[str]:
        return [key for key, row in models.page.rows.items() if row.isVisibleTo(models.page)]

    new = PublishedModel("new/model", "New", "for chat", 3_200_002, "llada-8b", "auto", model_type="llada")
    models._published = (*models._published, new)
    models.refresh()
    models.page.show()
    fold = models.page.experimental.fold
    assert (fold.text(), listed()) == ("▸ 1 experimental model to download", [SMALL, REPO, GATED])
    qtbot.mouseClick(fold, Qt.MouseButton.LeftButton)
    assert listed() == [SMALL, REPO, GATED, new.repo]
    assert models.page.rows[new.repo].facts.text() == "Diffusion · Apache-2.0 · not run by us yet"
    assert models.page.rows[new.repo].buttons["download"] in models.page.rows[new.repo].tab_order()


def test_a_model_card_opens_in_the_browser_unless_offline(
    qtbot: QtBot, hub: Hub, models: ModelsController, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: pages.append(url.toString()))
    row = models.page.rows[REPO]
    qtbot.mouseClick(row.card, Qt.MouseButton.LeftButton)
    assert pages == [f"{hub.endpoint}/{REPO}"]
    models._context.set_offline(True)
    assert not row.card.isEnabled()
    assert not models.page.rows[EMBEDDED[0].id].card.isVisibleTo(models.page.rows[EMBEDDED[0].id])
