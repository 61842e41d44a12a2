"""The runs that are offered: what a damaged, deep, large or odd file among them does to the others."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.inspector import run_catalog
from app.inspector.run_catalog import KeptRuns, RunCatalog
from engine.events import TextArrived
from engine.trace import TraceError, read_header
from engine.trace.format import frame, opening
from tests.engine.traces import header, made_up, write


def kept(folder: Path, *names: str) -> None:
    """Good files, the first the newest."""
    folder.mkdir(exist_ok=True)
    for age, name in enumerate(names):
        write(folder / f"{name}.sltrace", made_up(), header())
        os.utime(folder / f"{name}.sltrace", (1e9 - age, 1e9 - age))


def with_header(path: Path, raw: dict[str, Any]) -> None:
    path.write_bytes(opening() + frame(b"HEAD", json.dumps(raw).encode()))


def raw_header(**changes: Any) -> dict[str, Any]:
    return {**json.loads(header().to_json()), **changes}


def names(runs: KeptRuns) -> list[str]:
    return [Path(key).stem for _, key in runs.headers(runs.newest(20))]


def test_a_file_that_cannot_be_read_hides_no_other_and_is_named_once(tmp_path: Path) -> None:
    kept(tmp_path, "one", "two")
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    with_header(tmp_path / "deep.sltrace", raw_header(config={"pinned": deep}))
    (tmp_path / "rubbish.sltrace").write_bytes(b"rubbish")
    runs = KeptRuns(tmp_path)
    assert names(runs) == ["one", "two"]
    told = runs.problems()
    assert sorted(Path(problem.split(".sltrace")[0]).stem for problem in told) == ["deep", "rubbish"]
    assert names(runs) == ["one", "two"]
    assert runs.problems() == []


@pytest.mark.skipif(sys.platform == "win32", reason="has neither pipes nor such links")
def test_only_files_of_the_folder_itself_are_listed(tmp_path: Path) -> None:
    kept(tmp_path, "one")
    os.mkfifo(tmp_path / "pipe.sltrace")
    (tmp_path / "link.sltrace").symlink_to("/dev/zero")
    (tmp_path / "folder.sltrace").mkdir()
    runs = KeptRuns(tmp_path)
    assert names(runs) == ["one"]
    assert runs.problems() == []
    assert KeptRuns(tmp_path / "nothing here").newest(20) == []


def test_a_header_is_read_once_until_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, "one", "two")
    read: list[Path] = []

    def counted(path: Path, most: int) -> Any:
        read.append(path)
        return read_header(path, most)

    monkeypatch.setattr(run_catalog, "read_header", counted)
    runs = KeptRuns(tmp_path)
    assert names(runs) == names(runs) == ["one", "two"]
    assert len(read) == 2
    with_header(tmp_path / "one.sltrace", raw_header(prompt="another"))
    assert {found.prompt for found, _ in runs.headers(runs.newest(20))} == {"another", "prompt"}
    assert len(read) == 3


def test_little_is_read_at_a_time_and_the_rest_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, "one", "two", "three")
    monkeypatch.setattr(run_catalog, "LISTED_BYTES", len(header().to_json()) + 10)
    runs = KeptRuns(tmp_path)
    assert [len(names(runs)) for _ in range(3)] == [2, 3, 3]
    assert runs.problems() == []


def test_a_long_prompt_is_opened_by_its_name(tmp_path: Path) -> None:
    with_header(tmp_path / "long.sltrace", raw_header(prompt="x" * 5000))
    with pytest.raises(TraceError, match="too long a prompt to be listed"):
        read_header(tmp_path / "long.sltrace", 4000)
    assert len(read_header(tmp_path / "long.sltrace")[0].prompt) == 5000


# ---------------------------------------------------------------- off the GUI thread


@pytest.fixture
def catalog(qapp: object, tmp_path: Path) -> Iterator[RunCatalog]:  # noqa: ARG001 - signals need one
    kept(tmp_path / "gallery", "first")
    made = RunCatalog(tmp_path, [tmp_path / "gallery" / "first.sltrace"])
    yield made
    made.close()


class SlowHeaders:
    """``read_header`` that waits for ``gate`` before each file, and notes in which thread it was."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.threads: set[threading.Thread] = set()

    def __call__(self, path: Path, most: int) -> Any:
        self.threads.add(threading.current_thread())
        assert self.gate.acquire(timeout=30)
        return read_header(path, most)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowHeaders]:
    made = SlowHeaders()
    monkeypatch.setattr(run_catalog, "read_header", made)
    yield made
    made.gate.release(100)


def recent(catalog: RunCatalog) -> list[str]:
    return [Path(key).stem for _, key in catalog.recent]


def test_headers_are_read_in_a_thread_and_told_as_they_come(
    qtbot: QtBot, tmp_path: Path, catalog: RunCatalog, slow: SlowHeaders
) -> None:
    kept(tmp_path, "one", "two")
    catalog.look()
    assert recent(catalog) == []
    for found in (["one"], ["one", "two"]):
        with qtbot.waitSignal(catalog.changed):
            slow.gate.release()
        assert recent(catalog) == found
    with qtbot.waitSignal(catalog.changed):
        slow.gate.release()
    assert [Path(key).stem for _, key in catalog.gallery] == ["first"]
    qtbot.waitUntil(lambda: not catalog.is_looking)
    assert threading.current_thread() not in slow.threads
    assert len(slow.threads) == 1


def test_a_look_during_another_follows_it_and_known_files_are_not_read_again(
    qtbot: QtBot, tmp_path: Path, catalog: RunCatalog, slow: SlowHeaders
) -> None:
    kept(tmp_path, "one")
    catalog.look()
    qtbot.waitUntil(lambda: bool(slow.threads))
    kept(tmp_path, "newest")
    os.utime(tmp_path / "newest.sltrace", (2e9, 2e9))
    catalog.look()
    catalog.look()
    slow.gate.release(3)  # one, the gallery's, the newest
    qtbot.waitUntil(lambda: not catalog.is_looking)
    assert recent(catalog) == ["newest", "one"]
    (tmp_path / "newest.sltrace").unlink()
    with qtbot.waitSignal(catalog.changed):
        catalog.look()
    assert recent(catalog) == ["one"]


def test_problems_are_told_once(qtbot: QtBot, tmp_path: Path, catalog: RunCatalog) -> None:
    (tmp_path / "rubbish.sltrace").write_bytes(b"rubbish")
    told: list[list[str]] = []
    catalog.failed.connect(told.append)
    for _ in range(2):
        catalog.look()
        qtbot.waitUntil(lambda: not catalog.is_looking)
    assert len(told) == 1
    assert "rubbish" in told[0][0]


def test_closing_ends_the_thread_in_the_middle_of_a_look(
    qtbot: QtBot, tmp_path: Path, catalog: RunCatalog, slow: SlowHeaders
) -> None:
    kept(tmp_path, "one", "two")
    catalog.look()
    qtbot.waitUntil(lambda: bool(slow.threads))
    slow.gate.release()  # of the one that is being read; the next is not begun
    catalog.close()
    assert not catalog.is_alive
    catalog.look()
    assert not catalog.is_alive


def test_a_run_that_came_as_text_alone_is_not_offered(tmp_path: Path) -> None:
    kept(tmp_path, "one")
    write(tmp_path / "text.sltrace", [TextArrived("Hello")], header(0, 0))
    assert read_header(tmp_path / "text.sltrace")[0].canvas_length == 0
    assert names(KeptRuns(tmp_path)) == ["one"]
