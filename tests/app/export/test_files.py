"""Files appear whole or not at all, and refusals are one sentence."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from app.export import json
from app.export.options import Options
from app.export.run import export
from engine import SafelightError, Trace

from .conftest import whole


def test_the_old_file_stands_until_the_new_one_is_whole(real: Trace, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("before")
    work = export(real, path, Options("json"))
    next(work)
    assert path.read_text() == "before"
    work.close()  # type: ignore[attr-defined]
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    whole(real, path, Options("json"))
    assert path.read_text().startswith("{")
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk(real: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "run.json"
    path.write_text("before")
    monkeypatch.setattr(json, "_write_parts", full)
    with pytest.raises(SafelightError, match=r"disk is full.*Free some space"):
        whole(real, path, Options("json"))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_no_such_folder_and_a_folder_of_that_name(real: Trace, tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match="there is no folder"):
        whole(real, tmp_path / "none" / "run.html")
    (tmp_path / "run.html").mkdir()
    with pytest.raises(SafelightError, match="cannot be written"):
        whole(real, tmp_path / "run.html")
    assert [each.name for each in tmp_path.iterdir()] == ["run.html"]


def test_anybody_may_read_it_who_may_read_new_files(real: Trace, tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    path = whole(real, tmp_path / "run.html")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
