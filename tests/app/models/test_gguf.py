"""A GGUF file on the models page: chosen, planned, imported, refused; always in a thread."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

import engine.models.gguf_import
from app.models.controller import ModelsController
from engine import GAPS
from engine.catalog import resolve
from tests.app.models.contexts import SOON, offered, press, until
from tests.engine.gguf_files import small, tiny, write

Open = Callable[..., ModelsController]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf", resolve(GAPS))


def choose(qtbot: QtBot, models: ModelsController, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_args: (str(file), ""))
    qtbot.mouseClick(models.page.add_file, Qt.MouseButton.LeftButton)


def test_it_is_planned_imported_and_loadable(
    qtbot: QtBot, open_page: Open, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(shutil.copy(whole, tmp_path))
    models, threads, header = open_page(is_shown=False), set[str](), engine.models.gguf_import.GGUFHeader
    read = header.read
    watched = staticmethod(lambda path: threads.add(threading.current_thread().name) or read(path))
    monkeypatch.setattr(header, "read", watched)
    choose(qtbot, models, file, monkeypatch)
    row = models.page.rows[str(file)]
    assert row.memory.text() == "Counting the memory that it needs…"
    qtbot.waitUntil(lambda: row.disk.text().startswith("✓ Disk: needs 0.5 MB of "), timeout=SOON)
    assert "of memory" in row.memory.text()
    assert "Text only: images need the original checkpoint." in row.memory.toolTip()
    assert row.status.text() == f"{file.stat().st_size / 1e6:.1f} MB on disk"
    until(qtbot, row, "convert", "remove")
    assert [row.buttons[name].text() for name in offered(row)] == ["Import", "Remove from the list"]
    press(qtbot, row, "convert")
    packed = models._folder / "tiny-packed"
    qtbot.waitUntil(lambda: (str(packed), "tiny, packed") in models._context.slot.models, timeout=SOON)
    until(qtbot, models.page.rows[str(packed)], "load", "delete")
    until(qtbot, row, "remove")  # it is imported already
    assert row.progress.text() == "✓ Packed into 4 bits"
    assert threads == {"safelight-light-jobs", "safelight-heavy-jobs"}
    press(qtbot, row, "remove")
    assert str(file) not in models.page.rows
    assert file.exists()


def test_one_that_loads_as_it_is_offers_that(
    qtbot: QtBot, open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, file = open_page(is_shown=False), small(tmp_path / "small.gguf", resolve(GAPS), "llama")
    choose(qtbot, models, file, monkeypatch)
    row = models.page.rows[str(file)]
    qtbot.waitUntil(lambda: "of memory" in row.memory.text(), timeout=SOON)
    until(qtbot, row, "load", "convert", "remove")
    assert row.purpose.text() == "A GGUF file of your own; loads as it is"
    assert (str(file), "small") in models._context.slot.models
    with qtbot.waitSignal(models._context.load_asked) as asked:
        press(qtbot, row, "load")
    assert asked.args == [str(file)]
    models._context.show_loaded(str(file))
    until(qtbot, row, "unload", "convert", "remove")
    press(qtbot, row, "convert")  # to make a folder of it
    packed = models._folder / "small-packed"
    qtbot.waitUntil(lambda: (str(packed), "small, packed") in models._context.slot.models, timeout=SOON)


def test_any_part_or_the_folder_is_one_row(
    qtbot: QtBot,
    open_page: Open,
    tmp_path: Path,
    settings: QSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "mine").mkdir()
    small(tmp_path / "mine" / "small.gguf", resolve(GAPS), "llama", most_tensors=8)
    first, second, *_ = sorted((tmp_path / "mine").iterdir())
    settings.setValue("models/folders", [str(second), str(first), str(tmp_path / "mine")])  # of earlier versions
    models = open_page(is_shown=False)

    def rows() -> list[str]:
        return [entry.key for entry in models._entries.values() if entry.group == "local"]

    assert rows() == [str(first)]
    models._do(str(first), "remove")
    assert rows() == []
    choose(qtbot, models, second, monkeypatch)
    assert rows() == [str(first)]
    assert models.page.rows[str(first)].title.text() == "small"
    assert models.page.rows[str(first)].purpose.text() == "A GGUF file of your own; loads as it is"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_args: str(tmp_path / "mine"))
    qtbot.mouseClick(models.page.add, Qt.MouseButton.LeftButton)
    assert rows() == [str(first)]
    assert [title for path, title in models._context.slot.models if "small-0" in path] == ["small"]
    assert not models.page.notice.isVisibleTo(models.page)
    shutil.copy(first, tmp_path / "mine" / "other.gguf")  # named like no part, which is found out when it is loaded
    qtbot.mouseClick(models.page.add, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "other (" in models.page.found.refused.text(), timeout=SOON)
    assert "is one of" in models.page.found.refused.text()
    assert rows() == [str(first)]


def test_what_cannot_be_imported_is_said_and_not_listed(
    qtbot: QtBot,
    open_page: Open,
    tmp_path: Path,
    settings: QSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = open_page(is_shown=False)
    other = write(tmp_path / "other.gguf", {}, {}, "qwen3moe")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\3\0\0\0")
    (tmp_path / "x.bin").write_bytes(b"")
    for path, message in (
        (other, "llada, llada-moe, dream, gemma3 can be imported."),
        (tmp_path / "broken.gguf", "is truncated: it ends within its header. Download it again."),
        (tmp_path / "x.bin", "is not a GGUF file. Choose one that ends in .gguf."),
    ):
        choose(qtbot, models, path, monkeypatch)
        qtbot.waitUntil(lambda message=message: models.page.notice.message.text().endswith(message), timeout=SOON)
        assert models.page.notice.isVisibleTo(models.page)
        assert str(path) not in models.page.rows
    assert not settings.value("models/folders")
