"""Recorded runs go with the messages that made them, and no sooner."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from app.library import Library, LibraryError, NewMessage
from engine.trace import Parent, name_of, name_trace, prune_traces
from engine.trace.folder import REMOVED
from tests.engine.traces import header, made_up, write


def run_in(folder: Path, *, of: str = "", name: str = "") -> str:
    """Writes the file of a run, or of a fork of one; returns its id."""
    folder = folder / "traces"
    folder.mkdir(exist_ok=True, parents=True)
    head = header(parent=Parent(of, 0, 0) if of else None)
    path = write(folder / f"{head.id}.sltrace", made_up(), head)
    if name:
        name_trace(path, name)
    return head.id


def answered(library: Library, *runs: str, conversation: int | None = None) -> tuple[int, int]:
    """Stores an answer with runs, the last its own and the others of rounds of calls; returns both ids."""
    conversation = library.create(title="t") if conversation is None else conversation
    prompt = library.add(conversation, NewMessage(None, "user", "?"))
    rounds = [{"text": "", "trace": run, "calls": [{"arguments": json.dumps({"trace": "f" * 32})}]} for run in runs]
    settings = json.dumps({"trace": runs[-1], "rounds": rounds[:-1]})
    return conversation, library.add(conversation, NewMessage(prompt, "assistant", "!", settings=settings))


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "traces").iterdir()}


def stems(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "traces").iterdir()}


def test_the_runs_of_a_deleted_conversation_are_hidden_then_erased_with_it(library: Library, folder: Path) -> None:
    first, second, other = (run_in(folder, name="named") for _ in range(3))
    fork = run_in(folder, of=first)
    of_fork = run_in(folder, of=fork, name="a fork of a fork")
    conversation, _ = answered(library, first, second)
    assert library.hidden_runs() == set()
    library.delete(conversation)
    assert library.hidden_runs() == {first, second}
    library.purge()
    list(library.erasing())
    assert stems(folder) == {first, second, other, fork, of_fork}
    library.restore(conversation)
    assert library.hidden_runs() == set()
    library.delete(conversation)
    list(library.erasing(conversation))
    assert files(folder) == {f"{other}.sltrace", f"{other}.name"}


def test_the_run_of_a_removed_version_goes_when_it_can_no_longer_be_put_back(library: Library, folder: Path) -> None:
    kept, gone = run_in(folder), run_in(folder)
    conversation, _ = answered(library, kept)
    _, removed = answered(library, gone, conversation=conversation)
    library.remove(removed)
    assert library.hidden_runs() == {gone}
    assert stems(folder) == {kept, gone}
    library.purge()
    assert stems(folder) == {kept}


def test_a_run_that_a_copy_has_stays_with_it(library: Library, folder: Path) -> None:
    run = run_in(folder)
    conversation, _ = answered(library, run)
    copy = library.insert(library.whole(conversation))
    library.delete(conversation)
    assert library.hidden_runs() == set()
    list(library.erasing(conversation))
    assert stems(folder) == {run}
    library.delete(copy)
    list(library.erasing(copy))
    assert stems(folder) == set()


def test_a_fork_that_another_conversation_has_stays_with_it(library: Library, folder: Path) -> None:
    run = run_in(folder)
    fork = run_in(folder, of=run)
    of_fork, other = run_in(folder, of=fork), run_in(folder, of=run)
    conversation, _ = answered(library, run, other)
    has_fork, _ = answered(library, fork)
    library.delete(conversation)
    list(library.erasing(conversation))
    assert stems(folder) == {fork, of_fork}
    library.delete(has_fork)
    list(library.erasing(has_fork))
    assert stems(folder) == set()


def test_a_run_that_is_held_leaves_the_conversation_whole(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = sorted(run_in(folder, name="n") for _ in range(3))
    conversation, _ = answered(library, *runs)
    library.delete(conversation)
    replace = Path.replace

    def held(path: Path, target: Path) -> Path:  # as Windows answers for an open file
        if path.stem == runs[1] and path.suffix == ".sltrace":
            raise PermissionError(13, "it is being used by another process")
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", held)
        with pytest.raises(LibraryError, match=r"cannot be deleted .*so nothing was\. Close the run"):
            list(library.erasing(conversation))
    assert files(folder) == {f"{run}{suffix}" for run in runs for suffix in (".sltrace", ".name")}
    library.restore(conversation)
    assert len(library.messages(conversation)) == 2
    library.delete(conversation)
    list(library.erasing(conversation))
    assert files(folder) == set()


def test_a_kill_before_the_conversation_is_erased_takes_no_run(library: Library, folder: Path) -> None:
    kept, gone = run_in(folder, name="n"), run_in(folder)
    conversation, _ = answered(library, kept)
    library.delete(conversation)
    for run in (kept, gone):  # the one as it was before the commit, the other as after it
        path = folder / "traces" / f"{run}.sltrace"
        path.rename(path.with_suffix(REMOVED))
    list(library.erasing())  # as at each start
    assert files(folder) == {f"{kept}.sltrace", f"{kept}.name"}
    list(library.erasing(conversation))
    assert files(folder) == set()


def test_a_run_without_its_file_and_one_that_is_damaged_hinder_nothing(library: Library, folder: Path) -> None:
    missing, damaged = run_in(folder), run_in(folder)
    (folder / "traces" / f"{missing}.sltrace").unlink()
    (folder / "traces" / f"{damaged}.sltrace").write_bytes(b"rubbish")
    conversation, _ = answered(library, missing, damaged)
    library.delete(conversation)
    list(library.erasing(conversation))
    assert stems(folder) == set()


def test_erasing_that_is_broken_off_or_overtaken_by_a_restore_erases_nothing(library: Library, folder: Path) -> None:
    runs = {run_in(folder) for _ in range(3)}
    conversation, _ = answered(library, *runs)
    library.delete(conversation)
    steps = library.erasing(conversation)
    next(steps)
    steps.close()
    assert stems(folder) == runs
    steps = library.erasing(conversation)
    next(steps)
    library.restore(conversation)  # meanwhile
    list(steps)
    assert stems(folder) == runs
    assert len(library.messages(conversation)) == 2


def test_names_of_runs_are_bounded_and_taken_away(tmp_path: Path) -> None:
    path = tmp_path / "run.sltrace"
    assert name_of(path) == ""
    name_trace(path, "  two\nwords " + "x" * 300)
    assert name_of(path) == ("two words " + "x" * 300)[:200]
    if sys.platform != "win32":
        assert path.with_suffix(".name").stat().st_mode & 0o777 == 0o600
    path.with_suffix(".name").write_bytes(b"\xff\xfe")
    assert name_of(path) == ""
    name_trace(path, " ")
    name_trace(path, "")
    assert list(tmp_path.iterdir()) == []


def test_pruning_takes_names_along_and_what_a_crash_left(folder: Path) -> None:
    run_in(folder, name="old")
    (folder / "traces" / f"{'0' * 32}{REMOVED}").write_bytes(b"left")
    for path in (folder / "traces").iterdir():
        os.utime(path, (0, 0))
    assert prune_traces(folder / "traces", budget=0, newest=0) == 1
    assert files(folder) == set()


def test_what_is_erased_cannot_be_read_from_the_files(library: Library, folder: Path) -> None:
    def found() -> int:
        return sum(path.read_bytes().count(b"secret phrase") for path in folder.rglob("*") if path.is_file())

    conversation, answer = answered(library, run_in(folder))
    for length in (10, 4000, 40_000):  # as an answer grows
        library.update(answer, content="secret phrase " * (length // 14), status="developing")
    library.update(answer, status="done")
    library.add(conversation, NewMessage(answer, "user", "secret phrase " * 3000))
    assert found() > 5000
    library.delete(conversation)
    list(library.erasing(conversation))
    assert found() == 0
