"""JSON: all of a run is in it, under the names of the events' own fields."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.export.run import Options
from engine import Event, TextArrived, Trace, TraceHeader

from .conftest import made_of, whole


def parsed(run: Trace, folder: Path, **options: Any) -> dict[str, Any]:
    path = whole(run, folder / "run.json", Options("json", **options))
    raw: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return raw


def same(event: Event, raw: dict[str, Any]) -> bool:
    """True if JSON has all fields of an event, bit for bit, and no others."""
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    assert raw["kind"] == type(event).__name__
    assert raw.keys() == {"kind", *fields}
    for name, value in fields.items():
        pairs = zip(value, raw[name], strict=True) if isinstance(value, tuple) else [(value, raw[name])]
        for mine, said in pairs:
            if isinstance(mine, np.ndarray):
                back = np.array(said, dtype=object).astype(mine.dtype)
                assert np.array_equal(mine, back, equal_nan=mine.dtype == np.float32), name
            else:
                assert said == (str(mine) if isinstance(mine, float) and not math.isfinite(mine) else mine), name
    return True


@pytest.mark.parametrize("name", ["several", "hostile", "decision", "fitting"])
def test_nothing_is_lost(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: Trace = request.getfixturevalue(name)
    raw = parsed(run, tmp_path)
    assert all(map(same, run.events, raw["events"]))
    assert len(raw["events"]) == len(run.events)
    header, unknown = TraceHeader.from_bytes(json.dumps(raw["header"]).encode())
    assert header == dataclasses.replace(run.header, model=dataclasses.replace(run.header.model, path=""))
    assert not unknown
    assert (raw["text"], raw["thinking"]) == (run.reply().text, run.reply().thinking)
    for event in run.events:
        for token in np.unique(getattr(event, "argmax_canvas", [])).tolist():
            assert raw["pieces"][str(token)] == run.piece(token)
            assert (token in raw["special"]) == run.is_special(token)


def test_a_run_that_was_cut_short_keeps_its_draft_and_its_reason(real: Trace, tmp_path: Path) -> None:
    cut = made_of(real.header, real.events[:5], real)
    cut.fail("The graphics card fell out.")
    raw = parsed(cut, tmp_path)
    assert raw["text"] == cut.text != ""
    assert raw["failure"] == "The graphics card fell out."
    assert len(raw["events"]) == 5


def test_numbers_that_are_none_are_texts(hostile: Trace, tmp_path: Path) -> None:
    entropy = np.array([np.nan, np.inf, 0.1, 1e-38] + [0.0] * 20, dtype=np.float32)
    odd = made_of(hostile.header, [hostile.events[1], dataclasses.replace(hostile.steps[0], entropy=entropy)])
    raw = parsed(odd, tmp_path)["events"][1]
    assert raw["entropy"][:4] == ["nan", "inf", 0.1, 1e-38]
    assert same(odd.events[1], raw)


def test_the_file_says_what_it_is(several: Trace, tmp_path: Path) -> None:
    raw = parsed(several, tmp_path)
    parts = ["format", "version", "header", "events", "text", "thinking", "failure", "pieces", "special"]
    assert [*raw] == parts
    assert (raw["format"], raw["version"]) == ("safelight-run", 1)
    assert [event["kind"] for event in raw["events"]][:2] == ["PrefillFinished", "CanvasStarted"]


def test_a_run_that_came_as_text_is_its_parts(real: Trace, tmp_path: Path) -> None:
    run = made_of(real.header, [TextArrived("Let me see. ", True, 2), TextArrived("Grüße, 𝄞", False, 3)])
    raw = parsed(run, tmp_path)
    assert raw["events"][1] == {"kind": "TextArrived", "text": "Grüße, 𝄞", "is_thought": False, "counted": 3}
    assert (raw["text"], raw["thinking"]) == ("Grüße, 𝄞", "Let me see.")
