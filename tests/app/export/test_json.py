"""JSON: nothing is lost on the way there and back, and foreign files are told apart."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.export import json as run_json
from app.export.options import Options
from app.state.run.replay import Replay
from engine import Event, SafelightError, Trace

from .conftest import whole


def same(one: Event, other: Event) -> bool:
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        pairs = zip(mine, theirs, strict=True) if isinstance(mine, tuple) else [(mine, theirs)]
        for value, back in pairs:
            if isinstance(value, np.ndarray):
                assert value.dtype == back.dtype, field.name
                assert np.array_equal(value, back, equal_nan=value.dtype == np.float32), field.name
            else:
                assert (value, type(value)) == (back, type(back)), field.name
    return True


@pytest.mark.parametrize("name", ["real", "several", "hostile", "large", "decision", "fitting", "verifying", "trying"])
def test_nothing_is_lost(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: Trace = request.getfixturevalue(name)
    back = run_json.read(whole(run, tmp_path / "run.json", Options("json")))
    assert len(back.events) == len(run.events)
    assert all(same(one, other) for one, other in zip(run.events, back.events, strict=True))
    assert back.header == dataclasses.replace(run.header, model=dataclasses.replace(run.header.model, path=""))
    assert back.reply() == run.reply()
    for event in run.events:
        for token in np.unique(getattr(event, "argmax_canvas", [])):
            assert back.piece(int(token)) == run.piece(int(token))
            assert back.is_special(int(token)) == run.is_special(int(token))


def test_a_run_that_was_cut_short_keeps_its_draft_and_its_reason(real: Trace, tmp_path: Path) -> None:
    cut = Trace(header=real.header, piece=real.piece, is_special=real.is_special)
    for event in real.events[:5]:
        cut.append(event)
    cut.fail("The graphics card fell out.")
    back = run_json.read(whole(cut, tmp_path / "run.json", Options("json")))
    assert back.text == cut.text != ""
    assert back.failure == "The graphics card fell out."
    assert Replay(back).frames == Replay(cut).frames


def test_numbers_that_are_none_survive(hostile: Trace, tmp_path: Path) -> None:
    odd = Trace(header=hostile.header)
    odd.append(hostile.events[1])
    entropy = np.array([np.nan, np.inf, 0.1, 1e-38] + [0.0] * 20, dtype=np.float32)
    odd.append(dataclasses.replace(hostile.steps[0], entropy=entropy))
    back = run_json.read(whole(odd, tmp_path / "run.json", Options("json")))
    assert np.array_equal(back.steps[0].entropy, entropy, equal_nan=True)


def test_the_file_is_plain_json_that_says_what_it_is(several: Trace, tmp_path: Path) -> None:
    raw = json.loads(whole(several, tmp_path / "run.json", Options("json")).read_text(encoding="ascii"))
    assert (raw["format"], raw["version"]) == ("safelight-run", 1)
    assert raw["text"] == several.text
    assert [event["kind"] for event in raw["events"]][:2] == ["PrefillFinished", "CanvasStarted"]


def test_what_goes_with_no_question_and_no_canvas_is_damaged(decision: Trace, fitting: Trace, tmp_path: Path) -> None:
    def broken(run: Trace, kind: str, **changes: Any) -> str:
        raw = json.loads(whole(run, tmp_path / "run.json", Options("json")).read_text(encoding="ascii"))
        next(event for event in raw["events"] if event["kind"] == kind).update(changes)
        (tmp_path / "broken.json").write_text(json.dumps(raw))
        with pytest.raises(SafelightError, match="is damaged") as told:
            run_json.read(tmp_path / "broken.json")
        return str(told.value)

    assert "questions" in broken(decision, "SlotsRead", logprobs=[[-1, -1]], argmax_is_label=[1])
    for logprobs in ([[0.5, -1], [-1] * 3, [-1] * 4], [["nan", -1], [-1] * 3, [-1] * 4], "abc", 4, None):
        broken(decision, "SlotsRead", logprobs=logprobs)
    broken(decision, "SlotsRead", argmax_is_label=[1])
    for changes in ({"pinned": 17}, {"written": 9}, {"pinned": -1}, {"round": "x"}, {"canvas": [1]}):
        broken(fitting, "PrefixPinned", **changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as JSON"),
        ("[" * 100_000, "nested deeper than 32 levels"),
        ("[]", "is not a run of Safelight's"),
        ('{"format": "safelight-conversation", "version": 1}', "is not a run of Safelight's"),
        ('{"format": "safelight-run", "version": 2}', "another version of Safelight"),
        ('{"format": "safelight-run", "version": 1}', "is damaged"),
        (
            '{"format": "safelight-run", "version": 1, "header": 3, "events": 4, "pieces": []}',
            "is damaged",
        ),
    ],
)
def test_other_files_are_refused_in_a_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(SafelightError, match=message):
        run_json.read(path)


def test_events_out_of_order_are_damage(several: Trace, tmp_path: Path) -> None:
    path = whole(several, tmp_path / "run.json", Options("json"))
    raw = json.loads(path.read_text())
    raw["events"] = raw["events"][2:]
    path.write_text(json.dumps(raw))
    with pytest.raises(SafelightError, match="is damaged"):
        run_json.read(path)


def changed(run: Trace, folder: Path, place: int, **fields: Any) -> Path:
    """The file of a run with some of an event's fields others."""
    path = whole(run, folder / "run.json", Options("json"))
    raw = json.loads(path.read_text())
    raw["events"][place] |= fields
    path.write_text(json.dumps(raw))
    return path


WRONG: dict[str, tuple[int, dict[str, Any]]] = {
    "a step of another canvas": (2, {"argmax_canvas": [1, 2]}),
    "a canvas of lists": (1, {"canvas": [[1], [2]]}),
    "a token of no vocabulary": (1, {"canvas": [10**8] * 64}),
    "a token below nought": (1, {"canvas": [-1] * 64}),
    "a step out of turn": (2, {"step": 7}),
    "a step that is a text": (2, {"step": "0"}),
    "a block behind any": (1, {"block_index": 10**9}),
    "candidates of one position": (2, {"top_tokens": [[1, 2]]}),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_event_that_is_none_is_damage(several: Trace, tmp_path: Path, name: str) -> None:
    place, fields = WRONG[name]
    with pytest.raises(SafelightError, match="is damaged"):
        run_json.read(changed(several, tmp_path, place, **fields))


def test_a_file_of_any_size_is_not_taken_in(several: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = whole(several, tmp_path / "run.json", Options("json"))
    for bound, message in (("MOST_VALUES", "more than 500 values"), ("MOST_BYTES", "larger than 500 bytes")):
        monkeypatch.setattr(run_json, bound, 500)
        with pytest.raises(SafelightError, match=message):
            run_json.read(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match="is missing"):
        run_json.read(tmp_path / "none.json")
