"""Answers held to a format, by the local backend: recorded, or refused before they begin."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from engine import MINI, WEDLM, GenerationConfig, GenerationFinished, Mark, PrefixPinned, SafelightError
from engine.service import (
    ChatRun,
    InfillRun,
    LoadRequest,
    LocalBackend,
    RunEnded,
    RunRequest,
    RunStarted,
    run_alone,
)
from engine.text.output_format import OutputFormat
from engine.trace.reader import open_trace
from tests.engine.service.test_local import events, trace_of

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "integer", "maximum": 99}, "name": {"type": "string", "maxLength": 6}},
    "required": ["size", "name"],
}


def loaded(model: str, traces: Path | None = None) -> LocalBackend:
    backend = LocalBackend(traces)
    backend.load(LoadRequest(model, "A model"), lambda _: None)
    return backend


CONFIG = GenerationConfig(max_new_tokens=64, max_denoising_steps=4, eos_token_ids=(1, 8))
FORMAT = OutputFormat("json_schema", SCHEMA)


def asked(wanted: OutputFormat, seed: int = 3) -> RunRequest:
    return ChatRun(CONFIG, seed, ({"role": "user", "content": "What is 12 + 7?"},), output_format=wanted)


def test_a_run_is_recorded_with_its_format_and_cannot_be_changed(tmp_path: Path) -> None:
    backend = loaded(MINI, tmp_path)
    assert backend.capabilities.structured
    replies = list(run_alone(backend, asked(FORMAT)))
    found = events(replies)
    assert any(isinstance(event, PrefixPinned) for event in found)
    assert isinstance(found[-1], GenerationFinished)
    trace = trace_of(replies)
    assert trace.path is not None
    stored = open_trace(trace.path)
    assert stored.header.output_format == FORMAT
    assert [type(stored.event(at)) for at in range(len(stored.entries))] == [type(event) for event in found]
    with pytest.raises(SafelightError, match="an answer in a format"):
        InfillRun.of(trace, (Mark(0, 0, 2),), 1)


def test_a_causal_model_is_held_to_it_by_another_decoder_than_its_own(tmp_path: Path) -> None:
    backend = loaded(WEDLM, tmp_path)
    assert backend.capabilities.structured
    replies = list(run_alone(backend, asked(FORMAT)))
    last = events(replies)[-1]
    assert isinstance(last, GenerationFinished)
    trace = trace_of(replies)
    assert (last.reason, trace.header.config.decoder, trace.header.output_format) == ("eos", "autoregressive", FORMAT)
    found = json.loads(trace.text)
    assert isinstance(found["size"], int)
    assert isinstance(found["name"], str)


def test_what_cannot_be_held_to_ends_before_it_has_begun() -> None:
    backend = loaded(MINI)
    schema = {"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"], "type": "object"}
    wanted = OutputFormat("json_schema", schema)
    replies = list(run_alone(backend, asked(wanted)))
    assert not any(isinstance(reply, RunStarted) for reply in replies)
    (ended,) = replies
    assert isinstance(ended, RunEnded)
    assert ended.message.startswith("the schema's /properties/a cannot be satisfied")


ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
MAY_CALL = OutputFormat("text_or_calls", tools=(ADD,))


def test_a_text_that_may_have_calls_is_written_as_without_and_can_be_changed(tmp_path: Path) -> None:
    backend = loaded(MINI, tmp_path)
    free = trace_of(list(run_alone(backend, dataclasses.replace(asked(FORMAT), output_format=None))))
    held = trace_of(list(run_alone(backend, asked(MAY_CALL))))
    assert held.header.output_format == MAY_CALL
    assert held.text == free.text == "19"
    assert [entry.kind for entry in held.entries] == [entry.kind for entry in free.entries]
    assert not held.is_held
    changed = trace_of(list(run_alone(backend, InfillRun.of(held, (Mark(0, 0, 1),), 1))))
    assert changed.header.output_format is None


def test_a_decoder_that_would_write_token_by_token_has_no_such_format() -> None:
    backend = loaded(WEDLM)
    free = trace_of(list(run_alone(backend, dataclasses.replace(asked(FORMAT), output_format=None))))
    held = trace_of(list(run_alone(backend, asked(MAY_CALL))))
    assert held.header.output_format is None
    assert (held.text, held.header.config.decoder) == (free.text, free.header.config.decoder)
