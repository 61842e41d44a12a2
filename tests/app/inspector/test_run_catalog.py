"""The runs that are offered, with a damaged, deep, large or odd file among them."""

from __future__ import annotations

import json
import os
import sys
import threading
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


def with_header(path: Path, **changes: Any) -> None:
    raw = json.loads(header().to_bytes()) | changes
    path.write_bytes(opening() + frame(b"HEAD", json.dumps(raw).encode()))


def names(runs: KeptRuns) -> list[str]:
    return [Path(key).stem for _, key in runs.headers(runs.newest())]


def test_a_file_that_cannot_be_read_hides_no_other_and_is_named_once(tmp_path: Path) -> None:
    kept(tmp_path, "one", "two")
    write(tmp_path / "text.sltrace", [TextArrived("Hello")], header(0, 0))  # came as text alone: not offered
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    with_header(tmp_path / "deep.sltrace", config={"pinned": deep})
    (tmp_path / "rubbish.sltrace").write_bytes(b"rubbish")
    runs = KeptRuns(tmp_path)
    assert names(runs) == names(runs) == ["one", "two"]
    assert sorted(Path(problem.split(".sltrace")[0]).stem for problem in runs.problems) == ["deep", "rubbish"]
    with_header(tmp_path / "one.sltrace", prompt="another")  # a file that changes is read again
    assert {found.prompt for found, _ in runs.headers(runs.newest())} == {"another", "prompt"}


@pytest.mark.skipif(sys.platform == "win32", reason="has neither pipes nor such links")
def test_only_files_of_the_folder_itself_are_listed(tmp_path: Path) -> None:
    kept(tmp_path, "one")
    os.mkfifo(tmp_path / "pipe.sltrace")
    (tmp_path / "link.sltrace").symlink_to("/dev/zero")
    (tmp_path / "folder.sltrace").mkdir()
    runs = KeptRuns(tmp_path)
    assert (names(runs), runs.problems) == (["one"], [])
    assert KeptRuns(tmp_path / "nothing here").newest() == []


def test_a_long_prompt_is_opened_by_its_name(tmp_path: Path) -> None:
    with_header(tmp_path / "long.sltrace", prompt="x" * 5000)
    with pytest.raises(TraceError, match="too long a prompt to be listed"):
        read_header(tmp_path / "long.sltrace", 4000)
    assert len(read_header(tmp_path / "long.sltrace")[0].prompt) == 5000


def test_a_look_reads_in_a_thread_and_the_latest_look_holds(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path / "gallery", "first")
    kept(tmp_path, "one")
    gate, threads = threading.Semaphore(0), set[threading.Thread]()

    def slow(path: Path, most: int) -> Any:
        threads.add(threading.current_thread())
        assert gate.acquire(timeout=30)
        return read_header(path, most)

    monkeypatch.setattr(run_catalog, "read_header", slow)
    catalog, failed = RunCatalog(tmp_path, [tmp_path / "gallery" / "first.sltrace"]), list[list[str]]()
    catalog.failed.connect(failed.append)
    catalog.look()
    qtbot.waitUntil(lambda: bool(threads))
    kept(tmp_path, "newest")
    os.utime(tmp_path / "newest.sltrace", (2e9, 2e9))
    (tmp_path / "rubbish.sltrace").write_bytes(b"rubbish")
    catalog.look()
    gate.release(9)
    qtbot.waitUntil(lambda: not catalog._looking.is_busy)
    assert [Path(key).stem for _, key in catalog.found.recent] == ["newest", "one"]
    assert [Path(key).stem for _, key in catalog.found.gallery] == ["first"]
    assert threading.current_thread() not in threads
    (tmp_path / "newest.sltrace").unlink()
    with qtbot.waitSignal(catalog.changed):
        catalog.look()
    assert [Path(key).stem for _, key in catalog.found.recent] == ["one"]
    assert (len(failed), "rubbish" in failed[0][0]) == (1, True)
