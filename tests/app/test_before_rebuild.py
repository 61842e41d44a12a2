"""Files of the version before the rebuild open unchanged: conversations, settings, presets and traces.

``expected.json`` is what that version read in its own files. Settings and fields that came or went are not looked at.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.library import Library
from app.library.conversations import ConversationStore
from app.models.listed import LocalFolders
from app.presets.store import PresetStore
from app.settings import store
from app.settings.store import open_settings
from app.settings.values import SAMPLER
from app.state.run.replay import Replay
from engine import GenerationConfig, Recording, open_trace
from tests.engine.traces import read_whole

KEPT = Path(__file__).parents[1] / "fixtures" / "before_rebuild"
EXPECTED: dict[str, Any] = json.loads((KEPT / "expected.json").read_text(encoding="utf-8"))
TRACES = EXPECTED["traces"]


def plain(record: Any) -> Any:
    """A dataclass as JSON has it."""
    return json.loads(json.dumps(dataclasses.asdict(record)))


def assert_same(found: Any, wanted: Any, place: str = "") -> None:
    """Equal in all that was there before; an object may have got further fields since."""
    if isinstance(wanted, dict):
        assert wanted.keys() <= found.keys(), place
        for name, value in wanted.items():
            assert_same(found[name], value, f"{place}.{name}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        for at, (one, value) in enumerate(zip(found, wanted, strict=True)):
            assert_same(one, value, f"{place}[{at}]")
    else:
        assert found == wanted, place


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A copy of the files. Nothing may be left next to them: neither a backup nor a file that was set aside."""
    made = tmp_path / "data"
    shutil.copytree(KEPT, made)
    before = {path for path in made.rglob("*") if path.suffix != ".lock"}
    yield made
    assert {path for path in made.rglob("*") if path.suffix != ".lock"} == before


@pytest.fixture
def library(folder: Path) -> Iterator[Library]:
    """Opened right after the files were written, so that what was removed can still be put back."""
    moment = float(EXPECTED["opened_at"])
    opened = Library.open(folder, lambda: moment)
    yield opened
    opened.close()


# --- conversations -------------------------------------------------------------------------------------------------


def test_the_conversations_read_as_they_did(library: Library) -> None:
    assert library.notice == ""
    wanted = EXPECTED["conversations"]
    summaries = library.summaries()
    assert len(summaries) == len(wanted) == 4
    for summary, conversation in zip(summaries, wanted, strict=True):
        assert_same(plain(summary), conversation["summary"])
        messages = [plain(message) for message in library.messages(summary.id)]
        assert_same(messages, conversation["messages"], str(summary.id))
    deleted = EXPECTED["deleted"]
    assert deleted["id"] not in [summary.id for summary in summaries]
    library.restore(deleted["id"])
    assert library.conversation(deleted["id"]).title == deleted["title"]


def test_the_tree_is_on_show_as_it_was_left(library: Library) -> None:
    kept = ConversationStore(library)
    for conversation in EXPECTED["conversations"]:
        chat = kept.open(conversation["summary"]["id"])
        assert chat.system_prompt == conversation["summary"]["system_prompt"]
        found = [
            {"prompt": turn.prompt, "answer": turn.answer.text, "versions": [len(turn.answers.items)]}
            for turn in chat.turns
        ]
        assert found == conversation["turns"]


def test_an_answer_knows_its_trace_and_settings(library: Library) -> None:
    (run,) = [trace for trace in TRACES.values() if trace["kind"] == "chat"]
    (answer,) = [turn.answer for turn in ConversationStore(library).open(1).turns]
    assert answer.trace_id == run["header"]["id"]
    assert answer.text == run["text"]
    for setting in SAMPLER.values():
        before = run["header"]["config"].get(setting.name, getattr(GenerationConfig(), setting.name))
        assert getattr(answer.config, setting.name) == before
    assert answer.figures.steps == sum(run["steps"])


def test_what_was_removed_is_not_found_and_can_be_put_back(library: Library, folder: Path) -> None:
    """That version left removed messages in the index for search, and no word of them may be found there now."""
    removed = EXPECTED["removed"]
    word = removed["text"].split()[-1].rstrip(".")
    assert library.summaries(word) == []
    with closing(sqlite3.connect(folder / "library.sqlite")) as connection:
        indexed = f"SELECT rowid FROM message_index WHERE message_index MATCH '{word}'"
        assert connection.execute(indexed).fetchall() == []
    library.put_back(removed["id"])
    (found,) = library.summaries(word)
    messages = {message.id: message for message in library.messages(found.id)}
    assert messages[removed["id"]].content == removed["text"]
    assert messages[removed["id"]].parent == removed["under"]
    assert removed["answer"] in [message.content for message in messages.values() if message.parent == removed["id"]]


# --- settings and presets --------------------------------------------------------------------------------------------


def test_the_settings_read_as_they_did(folder: Path) -> None:
    path, wanted = folder / "Safelight.conf", EXPECTED["settings"]
    before = path.read_bytes()
    settings, problem = open_settings(path)
    assert (problem, store.unread(settings)) == ("", "")
    assert_same(plain(store.read_values(settings, reduced_motion=False)), wanted["values"])
    assert_same(plain(store.read_preferences(settings)), wanted["preferences"])
    for part, is_open in wanted["open"].items():
        assert store.read_open(settings, part, default=not is_open) is is_open
    assert store.read_conversation(settings) == wanted["conversation"]
    assert store.read_reopening(settings) == wanted["reopening"]
    assert [path.as_posix() for path in LocalFolders(settings).all()] == wanted["models"]
    for key, value in wanted["raw"].items():
        assert settings.value(key) == value
    settings.sync()
    assert path.read_bytes() == before


def test_the_presets_read_as_they_did(folder: Path) -> None:
    presets = PresetStore(folder)
    assert (presets.problem, presets.set_aside) == ("", None)
    assert len(presets.own) == len(EXPECTED["presets"]) == 3
    for preset, wanted in zip(presets.own, EXPECTED["presets"], strict=True):
        assert_same(plain(preset), wanted)
    presets.put(presets.own[0])
    assert PresetStore(folder).own == presets.own


# --- traces ----------------------------------------------------------------------------------------------------------


def digest(trace: Recording) -> str:
    """SHA-256 of all that is in the steps, in their order."""
    found = hashlib.sha256()
    for step in trace.steps:
        assert step.top_tokens is not None
        assert step.top_probabilities is not None
        for tokens in (step.argmax_canvas, step.candidates, step.next_canvas):
            found.update(tokens.astype("<i4").tobytes())
        found.update(step.accepted_mask.tobytes())
        found.update(step.entropy.astype("<f4").tobytes())
        found.update(step.top_tokens.astype("<i4").tobytes())
        found.update(step.top_probabilities.astype("<f4").tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("name", TRACES, ids=[trace["kind"] for trace in TRACES.values()])
def test_a_trace_reads_as_it_did(name: str, folder: Path) -> None:
    wanted = TRACES[name]
    trace = read_whole(folder / "traces" / name)
    assert (trace.notice, trace.failure) == ("", "")
    assert_same(plain(trace.header), wanted["header"])
    assert trace.text == wanted["text"]
    assert [event.tokens.tolist() for event in trace.committed] == wanted["committed"]
    assert [event.steps for event in trace.committed] == wanted["steps"]
    assert [event.reason for event in trace.committed] == wanted["reasons"]
    assert trace.result is not None
    assert trace.result.reason == wanted["reason"]
    assert trace.result.tokens.tolist() == wanted["final"]
    assert {token: trace.piece(int(token)) for token in wanted["pieces"]} == wanted["pieces"]
    assert digest(trace) == wanted["digest"]
    trace.close()


@pytest.mark.parametrize("name", TRACES, ids=[trace["kind"] for trace in TRACES.values()])
def test_a_trace_is_replayed_as_it_was(name: str, folder: Path) -> None:
    wanted = TRACES[name]
    trace = open_trace(folder / "traces" / name)
    replay = Replay(trace)
    assert (replay.problem, len(replay.frames)) == ("", wanted["frames"])
    records = [replay.record(block) for block in range(replay.blocks)]
    assert [count for record in records for count in record.change_counts.tolist()] == wanted["changes"]
    for record, tokens in zip(records, wanted["committed"], strict=True):
        assert record.final is not None
        assert record.final.tolist() == tokens
    trace.close()
