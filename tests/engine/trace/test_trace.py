"""A trace in a file: a run is read as it was, to the bit, and nothing is read that is not asked for."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import (
    EMBEDDED,
    MINI,
    SUDOKU,
    CanvasStarted,
    GenerationConfig,
    Model,
    Parent,
    SafelightError,
    StepFinished,
    TraceError,
    TraceWriter,
    gallery,
    load_model,
    open_trace,
    prune_traces,
)
from engine.fingerprint import fingerprint
from engine.forks import Fork, Mark
from engine.tasks import sudoku
from engine.trace import new_id, reader
from engine.trace.texts import tokens_of
from tests.engine.taught import FIXTURES
from tests.engine.traces import assert_same, header, is_tenth, letter, letters, made_up, read_whole, record, write

PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "several blocks": (MINI, "Count from 4 to 43.", {}),
    "a board": (SUDOKU, sudoku.to_prompt(PUZZLE), {"seed": 3}),
    "no candidates": (MINI, "Reverse the word stone.", {"top_k": 0}),
    "pinned": (MINI, "Reverse the word stone.", {"pinned": ((0, 40), (63, 41)), "banned_tokens": (50,)}),
    "another canvas": (MINI, "What is 47 + 5?", {"canvas_length": 13, "max_new_tokens": 20}),
    "cancelled at once": (MINI, "Count from 4 to 43.", {"stop_after": 0}),
    "failed": (MINI, "Count from 4 to 43.", {"fail_after": 7}),
}


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return {name: load_model(name) for name in (MINI, SUDOKU)}


@pytest.mark.parametrize("name", RUNS)
def test_a_real_run_is_read_as_it_was_recorded(models: dict[str, Model], tmp_path: Path, name: str) -> None:
    model, prompt, options = RUNS[name]
    live = record(models[model], prompt, tmp_path / "run.sltrace", **options)
    found = read_whole(tmp_path / "run.sltrace")
    assert_same(found.events, live.events)
    assert found.header == live.header
    assert found.entries == live.entries
    assert (found.failure, found.notice) == (live.failure, live.notice)
    assert (found.result is None) == (name == "failed")
    assert found.reply() == live.reply()
    assert bool(found.text) == bool(live.steps)
    for event in live.committed:
        assert found.reply(event.block_index) == live.reply(event.block_index)
    with pytest.raises(IndexError):
        found.reply(len(live.committed))
    tokenizer = models[model].tokenizer
    named = {int(token) for event in live.events for array in tokens_of(event) for token in array.ravel()}
    assert len(named) > 10
    for token in named:
        assert (found.piece(token), found.is_special(token)) == (tokenizer.piece(token), tokenizer.is_special(token))


@pytest.mark.parametrize(("length", "top"), [(1, 1), (7, 64), (8, 0), (300, None), (65, 3)])
def test_any_shape_and_any_number_comes_back(tmp_path: Path, length: int, top: int | None) -> None:
    events = list(made_up(length, top=top, vocabulary=2**24 - 1))
    step = events[2]
    assert isinstance(step, StepFinished)
    extremes = np.array([0.0, -0.0, 1e-45, 1e9, 1 / 3], dtype=np.float32)
    events[2] = dataclasses.replace(step, entropy=np.resize(extremes, length), temperature=5e-324, seconds=1e9)
    path = write(tmp_path / "run.sltrace", events, header(length, 2**24 - 1))
    assert_same(open_trace(path).events, events)


def test_saving_makes_the_same_file(models: dict[str, Model], tmp_path: Path) -> None:
    live = record(models[MINI], "Count from 4 to 43.", tmp_path / "written.sltrace")
    written = (tmp_path / "written.sltrace").read_bytes()
    (tmp_path / "saved.sltrace").write_text("what was there before")
    live.save(tmp_path / "saved.sltrace")
    open_trace(tmp_path / "saved.sltrace").save(tmp_path / "copied.sltrace")
    assert (tmp_path / "saved.sltrace").read_bytes() == written
    assert (tmp_path / "copied.sltrace").read_bytes() == written
    with pytest.raises(SafelightError, match="there is no folder"):
        live.save(tmp_path / "no such folder" / "saved.sltrace")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copied.sltrace", "saved.sltrace", "written.sltrace"]


def test_what_is_read_cannot_be_changed(tmp_path: Path) -> None:
    trace = open_trace(write(tmp_path / "run.sltrace", made_up(), header()))
    for event in trace.events:
        for field in dataclasses.fields(event):
            value = getattr(event, field.name)
            if isinstance(value, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    value[...] = 0


def test_the_header_says_everything(tmp_path: Path) -> None:
    config = GenerationConfig(entropy_bound=0.1 + 0.2, pinned=((0, 4), (2, 5)), banned_tokens=(4, 5, 6), top_k=8)
    made = header(
        parent=Parent(new_id(), 2, 17),
        marks=(Mark(2, 0, 5),),
        changes=(Fork(2, 17, pinned=((1, 4),), banned=(7,), seed=9, settings=(("entropy_bound", 0.3),)),),
        messages=({"role": "system", "content": "Be \ud83d\ude00 short.\n"}, {"role": "user", "content": "prompt"}),
        prompt_ids=(2, 105, 4),
        think=True,
    )
    adapted = dataclasses.replace(made.model, adapter="Sudoku", adapter_fingerprint="f00d")
    made = dataclasses.replace(made, model=adapted, config=config, seed=2**63 - 1)
    found = open_trace(write(tmp_path / "run.sltrace", made_up(), made)).header
    assert found == dataclasses.replace(made, messages=found.messages)
    assert found.messages[0]["content"] == "Be \N{GRINNING FACE} short.\n"
    assert found.created_at.tzinfo is not None
    assert found.id != header().id
    assert write(tmp_path / "plain.sltrace", made_up(), header()).read_bytes()[8] == 1


def test_a_fork_may_leave_out_what_it_shares(tmp_path: Path) -> None:
    prefill, *events = made_up(blocks=4)
    first = [event for event in events[:-1] if event.block_index == 0]  # type: ignore[union-attr]
    rest = [event for event in events[:-1] if event.block_index in (1, 3)]  # type: ignore[union-attr]
    for shared in (first, []):  # with the blocks before, and without; between blocks, the prompt is read again
        run = [*shared, prefill, *rest, events[-1]]
        forked = header(parent=Parent(new_id(), 1, 1), marks=(Mark(1, 0, 2), Mark(3, 2, 4)))
        found = read_whole(write(tmp_path / f"fork {len(shared)}.sltrace", run, forked))
        assert_same(found.events, run)
        assert found.notice == ""
        assert found.text == letters(events[-1].tokens).text  # type: ignore[union-attr]
        whole = open_trace(write(tmp_path / f"none {len(shared)}.sltrace", run, header()))
        assert len(whole.entries) < len(run)


# --- reading as it is asked for --------------------------------------------------------------------------------------


def test_opening_reads_no_payload_but_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    payload = reader._payload
    monkeypatch.setattr(
        reader, "_payload", lambda file, head, most: read.append(head.kind) or payload(file, head, most)
    )
    one = list(made_up(length=64, blocks=1, steps=48, top=8, vocabulary=5000))[1:-1]
    events = [dataclasses.replace(event, block_index=block) for block in range(10) for event in one]  # type: ignore[arg-type]
    trace = open_trace(write(tmp_path / "run.sltrace", events, header(64, 5000)))
    assert len(trace.entries) == 10 * 50
    assert read == [b"HEAD"]
    last = trace.event(-2)
    assert isinstance(last, StepFinished)
    assert (last.block_index, last.step, len(read)) == (9, 47, 2)
    assert trace.event(-2) is last
    assert len(read) == 2
    assert trace.piece(int(last.argmax_canvas[0])) == letter(int(last.argmax_canvas[0]))
    assert len(read) < 60  # texts of tokens come with the first block
    assert trace.reply(0).text == letters(one[-1].tokens).text  # type: ignore[union-attr]


def test_little_is_kept_of_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = open_trace(write(tmp_path / "run.sltrace", made_up(), header()))
    monkeypatch.setattr("engine.trace.reader.CACHE_BYTES", 1000)
    for _ in range(2):
        assert_same(trace.events, list(made_up()))
        assert sum(size for _, size in trace._cache.values()) <= 1000


def test_threads_may_read_one_trace(tmp_path: Path) -> None:
    expected = list(made_up(blocks=4))
    trace = open_trace(write(tmp_path / "run.sltrace", expected, header()))

    def read(seed: int) -> None:
        for place in np.random.default_rng(seed).integers(0, len(expected), 200).tolist():
            trace._cache.clear()
            assert_same([trace.event(place)], [expected[place]])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(4)))


def test_a_trace_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    events = list(made_up())
    with TraceWriter(tmp_path / "run.sltrace", header(), letter, is_tenth, letters) as writer:
        assert not (tmp_path / "run.sltrace").exists()  # until something happens
        for count, event in enumerate(events, start=1):
            writer.append(event)
            found = read_whole(tmp_path / "run.sltrace")
            assert_same(found.events, events[:count])
            assert bool(found.notice) == (count < len(events))
            found.close()
    with pytest.raises(TraceError, match="closed"):
        writer.append(events[0])
    with pytest.raises(TraceError, match="exists"):
        write(tmp_path / "run.sltrace", events, header())
    assert_same(open_trace(tmp_path / "run.sltrace").events, events)


def test_replay_needs_neither_torch_nor_a_tokenizer() -> None:
    code = (
        "import sys, engine\n"
        "for one in engine.gallery():\n"
        "    trace = engine.open_trace(one.path)\n"
        "    assert trace.text and not trace.notice and len(trace.steps) > 1\n"
        "    assert trace.piece(trace.steps[0].argmax_canvas[0])\n"
        "print({'torch', 'tokenizers', 'jinja2', 'safetensors', 'PySide6'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("set()", "")


# --- the folder, the gallery, the model ------------------------------------------------------------------------------


def aged(folder: Path, name: str, size: int, age: int) -> None:
    (folder / name).write_bytes(bytes(size))
    os.utime(folder / name, (1e9 - age, 1e9 - age))


def test_pruning_takes_the_oldest_and_spares_the_newest(tmp_path: Path) -> None:
    for age in range(10):
        aged(tmp_path, f"{age}.sltrace", 100, age)
    aged(tmp_path, "notes.txt", 5000, 99)
    assert prune_traces(tmp_path, budget=1000, newest=2) == 0
    assert prune_traces(tmp_path, budget=650, newest=2) == 4
    assert sorted(path.stem for path in tmp_path.glob("*.sltrace")) == ["0", "1", "2", "3", "4", "5"]
    assert prune_traces(tmp_path, budget=0, newest=2) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.sltrace", "1.sltrace", "notes.txt"]
    assert prune_traces(tmp_path / "nothing here") == 0


@pytest.mark.skipif(sys.platform == "win32", reason="has neither such links nor such rights")
def test_no_link_is_followed_out_of_the_folder_of_traces(tmp_path: Path) -> None:
    folder, outside = tmp_path / "traces", tmp_path / "outside"
    for place in (folder, outside):
        place.mkdir(mode=0o755)
        aged(place, "old.sltrace", 100, 9)
        (place / "old.sltrace").chmod(0o644)
    (folder / "file.sltrace").symlink_to(outside / "old.sltrace")
    (folder / "folder.sltrace").symlink_to(outside)
    assert prune_traces(folder, budget=0, newest=0) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["file.sltrace", "folder.sltrace"]


def test_the_gallery_has_what_its_list_says() -> None:
    traces = gallery()
    assert len(traces) >= 6
    listed, embedded = {one.path for one in traces}, {model.id for model in EMBEDDED}
    assert listed == set(traces[0].path.parent.glob("*.sltrace"))
    for one in traces:
        assert one.path.stat().st_size < 300_000
        assert one.title
        assert one.note
        trace = read_whole(one.path)
        assert trace.notice == ""
        is_of_a_family = one.path.name.startswith("family-")
        assert (FIXTURES / trace.model_name).is_dir() if is_of_a_family else trace.model_name in embedded
        assert all(step.top_tokens is not None and step.top_tokens.shape[1] == 8 for step in trace.steps)
    reasons = {committed.reason for one in traces for committed in open_trace(one.path).committed}
    assert reasons == {"converged", "step_cap"}
    starts = [event for one in traces for event in open_trace(one.path).events if isinstance(event, CanvasStarted)]
    assert any(event.pinned_mask.any() for event in starts)
    assert any(event.block_index == 2 for event in starts)


def test_the_fingerprint_distinguishes_a_tuned_model_from_its_base(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    weights = np.zeros(10**6, dtype=np.uint8)
    (tmp_path / "model.safetensors").write_bytes(weights.tobytes())
    base = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == base
    weights[-1] = 1
    (tmp_path / "model.safetensors").write_bytes(weights.tobytes())
    assert fingerprint(tmp_path) != base


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in folders here")
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_is_not_fingerprinted(tmp_path: Path, name: str) -> None:
    for each in {"config.json", "tokenizer.json"} - {name}:
        (tmp_path / each).write_text("{}")
    os.mkfifo(tmp_path / name)
    with pytest.raises(SafelightError, match="is not a regular file"):
        fingerprint(tmp_path)
