"""The runs that are offered, with a damaged, deep, large or odd file among them, and lists made of their headers."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.inspector import run_catalog
from app.inspector.forks.panel import RunItem
from app.inspector.run_catalog import KeptRuns, RunCatalog, first_offers, other_offers, run_tree
from app.state.chat.attachment import Attachment, apart, with_attachments
from engine import Fork, GalleryTrace, TraceHeader
from engine.events import TextArrived
from engine.trace import Parent, TraceError, read_header
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


def run(id: str, day: int = 1, prompt: str = "prompt", **fields: Any) -> TraceHeader:
    return dataclasses.replace(header(), id=id, created=f"2026-01-{day:02}T12:00:00+00:00", prompt=prompt, **fields)


def test_the_users_runs_come_before_the_gallery() -> None:
    offers = first_offers([GalleryTrace(Path("g"), "Counting", "A note")], [(run("a", prompt="  two\nlines "), "a")])
    assert [(offer.title, offer.key, offer.section) for offer in offers] == [
        ("two lines", "a", "Your runs"),
        ("Counting", "g", "Gallery"),
    ]
    assert re.search(r"^2026-01-01 \d\d:00 ", offers[0].hint)  # whatever the locale


def test_a_fork_has_a_title_of_its_own() -> None:
    pins = Fork(0, 3, pinned=((12, 5), (13, 6), (14, 7)), settings=(("entropy_bound", 0.3),))
    of = {"parent": Parent("root", 0, 3)}
    runs = [
        run("root", prompt="Name three colours."),
        run("pins", prompt="Name three colours.", changes=(Fork(0, 0, banned=(5,)), pins), **of),
        run("seed", prompt="Name three colours.", changes=(Fork(0, 0, banned=(5, 6), seed=8),), **of),
        run("nothing", prompt="Name three colours. " * 9, changes=(Fork(0, 0),), **of),
        run("gaps", prompt="Name [[…]].", changes=(Fork(0, 0, pinned=((1, 2),)),)),  # no fork of another run
    ]
    assert [offer.title for offer in first_offers([], [(one, one.id) for one in runs])] == [
        "Name three colours.",
        "Fork of “Name three colours.”, 3 cells pinned, entropy bound 0.3 nats",
        "Fork of “Name three colours.”, 2 tokens banned, seed 8",
        "Fork of “Name three colours. Name three colours.…”, nothing changed",
        "Name [[…]].",
    ]


def test_files_in_a_prompt_are_named_in_its_title() -> None:
    window = Attachment("pasted.txt", "# The window\n\nFile: no\n```\ncode\n```\n")
    table, empty = Attachment("a table.csv", "1,2"), Attachment("x", "")
    for prompt, files, title in (
        ("Summarise\nthis.", (window,), "Summarise this. · pasted.txt"),
        ("Summarise.", (window, table, empty), "Summarise. · pasted.txt · a table.csv · x"),
        ("", (window,), "pasted.txt"),
        ("File: x", (), "File: x"),
        ("File: x\n\n```\nnever closed", (), "File: x ``` never closed"),
    ):
        (offer,) = first_offers([], [(run("a", prompt=with_attachments(prompt, files)), "a")])
        assert offer.title == title
        assert apart(with_attachments(prompt, files)) == ([file.name for file in files], prompt)


def test_runs_of_the_same_prompt_come_first_and_each_run_once() -> None:
    here = run("here")
    session = [(here, "here"), (run("a", prompt="another"), "memory")]
    recent = [(run("a", prompt="another"), "file"), (run("b"), "b")]
    offers = other_offers(here, session, recent, [(run("c", prompt="of the gallery"), "c")], {"c": "Counting"})
    assert [(offer.key, offer.section) for offer in offers] == [
        ("b", "The same prompt"),
        ("memory", "This session"),
        ("c", "Gallery"),
    ]
    assert offers[-1].title == "Counting"


def test_a_fork_of_a_fork_is_under_it_and_says_what_was_changed() -> None:
    pinned = Fork(0, 3, pinned=((12, 5),), settings=(("entropy_bound", 0.3),))
    fork = run("fork", 2, parent=Parent("root", 0, 3), changes=(pinned,))
    further = run("further", 3, parent=Parent("fork", 1, 0), changes=(pinned, Fork(1, 0, seed=8)))
    listed = [(further, "x"), (fork, "f"), (run("root"), "r"), (run("root"), "copy"), (run("of another"), "o")]

    for here in (further, fork, run("root")):
        assert run_tree(here, listed, {"r": "Counting"}, lambda _header: "abcdefgh".__getitem__) == [
            RunItem("root", "", "r", "Counting"),
            RunItem("fork", "root", "f", "Block 1, step 4: position 12 pinned to 'f', entropy bound 0.3 nats"),
            RunItem("further", "fork", "x", "Block 2, step 1: seed 8"),
        ]


def test_a_parent_that_is_kept_nowhere_has_its_place_in_the_tree() -> None:
    one = run("one", 2, parent=Parent("gone", 0, 3), changes=(Fork(0, 3, banned=(5,)),))
    two = run("two", 3, parent=Parent("gone", 0, 0), changes=(Fork(0, 0),))
    assert run_tree(one, [(two, "t"), (one, "o")], {}, lambda _header: None) == [
        RunItem("gone", "", "", "prompt (no longer kept)"),
        RunItem("one", "gone", "o", "Block 1, step 4: 1 token banned"),
        RunItem("two", "gone", "t", "Block 1, step 1: nothing changed"),
    ]


def test_a_run_that_claims_to_come_from_itself_hangs_nothing() -> None:
    one = run("one", parent=Parent("two", 0, 0))
    two = run("two", 2, parent=Parent("one", 0, 0))
    assert {item.id for item in run_tree(one, [(one, "1"), (two, "2")], {}, lambda _header: None)} <= {"one", "two"}
