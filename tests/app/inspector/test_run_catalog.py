"""The runs that are offered: what a damaged, deep, large or odd file among them does to the others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from app.inspector import run_catalog
from app.inspector.run_catalog import KeptRuns
from engine.trace import TraceError, read_header
from engine.trace.format import frame, opening
from tests.engine.traces import header, made_up, write


def kept(folder: Path, *names: str) -> None:
    """Good files, the first the newest."""
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
