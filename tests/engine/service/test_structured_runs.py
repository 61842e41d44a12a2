"""Answers held to a format, by the local backend: recorded, refused before they begin, and the same among others."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
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
    Scheduler,
    run_alone,
)
from engine.text import grammar
from engine.text.grammar_tokens import GrammarTokens
from engine.text.matching import Matcher, MatcherProcess, MatchingEndedError
from engine.text.output_format import OutputFormat
from engine.trace.reader import open_trace
from tests.engine.service.test_local import events, trace_of
from tests.engine.service.test_scheduler import Ear, within
from tests.engine.service.test_several_runs import Watched, at_once, request, told

SCHEMA = {
    "type": "object",
    "properties": {"size": {"type": "integer", "maximum": 99}, "name": {"type": "string", "maxLength": 6}},
    "required": ["size", "name"],
}
CONFIG = GenerationConfig(max_new_tokens=64, max_denoising_steps=4, eos_token_ids=(1, 8))
FORMAT = OutputFormat("json_schema", SCHEMA)


def asked(wanted: OutputFormat, seed: int = 3) -> RunRequest:
    return ChatRun(CONFIG, seed, ({"role": "user", "content": "What is 12 + 7?"},), output_format=wanted)


def test_a_run_is_recorded_with_its_format_and_cannot_be_changed(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.load(LoadRequest(MINI, "Skills"), lambda _: None)
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
    backend = LocalBackend(tmp_path)
    backend.load(LoadRequest(WEDLM, "WeDLM"), lambda _: None)
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
    backend = LocalBackend()
    backend.load(LoadRequest(MINI, "Skills"), lambda _: None)
    schema = {"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"], "type": "object"}
    wanted = OutputFormat("json_schema", schema)
    replies = list(run_alone(backend, asked(wanted)))
    assert not any(isinstance(reply, RunStarted) for reply in replies)
    (ended,) = replies
    assert isinstance(ended, RunEnded)
    assert ended.message.startswith("the schema's /properties/a cannot be satisfied")


def held_up(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Holds up what looks at formats until the event is set, or nobody wants it any more."""
    gate, usual = threading.Event(), grammar.matchers_of

    def slowly(format: OutputFormat, tokens: GrammarTokens, process: MatcherProcess) -> list[Matcher]:
        while not gate.wait(0.01):
            if process._cancel is not None and process._cancel.is_set():
                process.close()
                raise MatchingEndedError("it was ended")
        return usual(format, tokens, process)

    monkeypatch.setattr(grammar, "matchers_of", slowly)
    return gate


def test_other_runs_go_on_while_a_format_is_looked_at(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, slow = held_up(monkeypatch), Ear()
    scheduler.run(asked(FORMAT), slow)
    assert within(lambda: scheduler.running == 1)
    other = Ear()
    scheduler.run(request("Sort 17 3 42 9.", CONFIG, 1), other)
    assert other.end.message == ""
    assert not slow.heard
    gate.set()
    assert slow.end.message == ""
    assert any(isinstance(reply, RunStarted) for reply in slow.heard)


@pytest.mark.parametrize("closes", [False, True])
def test_a_run_whose_format_is_looked_at_can_be_cancelled(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, closes: bool
) -> None:
    gate, ear, wanted = held_up(monkeypatch), Ear(), asked(FORMAT)
    scheduler.run(wanted, ear)
    assert within(lambda: scheduler.running == 1)
    if closes:
        scheduler.stop_all()
    else:
        wanted.cancel.set()
    assert ear.end == RunEnded(wanted.run_id)
    assert ear.heard == [ear.end]
    gate.set()
    again = Ear()
    scheduler.run(asked(FORMAT), again)
    assert again.end.message == ""


@pytest.fixture
def backend() -> Watched:
    made = Watched()
    made.load(LoadRequest(MINI, "Skills"), lambda _: None)
    return made


@pytest.fixture
def scheduler(backend: Watched) -> Iterator[Scheduler]:
    made = Scheduler(backend)
    yield made
    assert made.close()


def test_runs_of_formats_among_others_are_what_each_is_alone(backend: Watched, scheduler: Scheduler) -> None:
    def made() -> list[tuple[RunRequest, Ear]]:
        formats = (FORMAT, OutputFormat("regex", pattern="[a-f]{9}x"), OutputFormat("choices", choices=("no", "nine")))
        runs = [asked(wanted, seed) for seed, wanted in enumerate(formats)]
        return [(one, Ear()) for one in (*runs, request("Sort 17 3 42 9.", CONFIG, 1))]

    alone, together = made(), made()
    for one in alone:
        at_once(backend, scheduler, [one])
    at_once(backend, scheduler, together)
    assert max(backend.together) == 4
    assert [ear.end.message for _, ear in together] == [""] * 4
    assert [told(ear) for _, ear in together] == [told(ear) for _, ear in alone]


ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
MAY_CALL = OutputFormat("text_or_calls", tools=(ADD,))


def test_a_text_that_may_have_calls_is_written_as_without_and_can_be_changed(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    backend.load(LoadRequest(MINI, "Skills"), lambda _: None)
    free = trace_of(list(run_alone(backend, dataclasses.replace(asked(FORMAT), output_format=None))))
    held = trace_of(list(run_alone(backend, asked(MAY_CALL))))
    assert held.header.output_format == MAY_CALL
    assert held.text == free.text == "19"
    assert [entry.kind for entry in held.entries] == [entry.kind for entry in free.entries]
    assert not held.is_held
    changed = trace_of(list(run_alone(backend, InfillRun.of(held, (Mark(0, 0, 1),), 1))))
    assert changed.header.output_format is None


def test_a_decoder_that_would_write_token_by_token_has_no_such_format() -> None:
    backend = LocalBackend()
    backend.load(LoadRequest(WEDLM, "WeDLM"), lambda _: None)
    free = trace_of(list(run_alone(backend, dataclasses.replace(asked(FORMAT), output_format=None))))
    held = trace_of(list(run_alone(backend, asked(MAY_CALL))))
    assert held.header.output_format is None
    assert (held.text, held.header.config.decoder) == (free.text, free.header.config.decoder)
