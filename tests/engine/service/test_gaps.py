"""A completion with a suffix fills the gap: its text comes by the usual events, and is stored as any other."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import CanvasCommitted, GenerationConfig, GenerationFinished, StepFinished, infill
from engine.decoding.gap_filling import LATE
from engine.service import GapRun, LocalBackend, RunAdvanced, RunEnded, RunReply, RunRequest, run_alone
from engine.service.backend import required
from engine.text.gap_markers import MARKERS, GapFile, TextGap
from tests.engine.gap_models import causal_folder
from tests.engine.service.test_local import loaded

PREFIX, SUFFIX = "two 2, three 3, ", ", six 6."


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> LocalBackend:
    backend = LocalBackend(tmp_path_factory.mktemp("traces"))
    loaded(backend)
    return backend


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> LocalBackend:
    backend = LocalBackend(tmp_path_factory.mktemp("traces"))
    folder = causal_folder(tmp_path_factory.mktemp("coder"), ("<|endoftext|>", *MARKERS[0].tokens), seed=4)
    loaded(backend, str(folder), "Coder")
    return backend


def asked(backend: LocalBackend, **fields: Any) -> RunRequest:
    config = required(backend._model).generation_defaults.replace(max_new_tokens=8, max_denoising_steps=4)
    return GapRun(config, 3, TextGap(PREFIX, SUFFIX), **fields)


def events_of(replies: list[RunReply]) -> list[Any]:
    return [reply.event for reply in replies if isinstance(reply, RunAdvanced)]


def ended(replies: list[RunReply]) -> RunEnded:
    last = replies[-1]
    assert isinstance(last, RunEnded)
    return last


@pytest.mark.parametrize("name", ["skills", "coder"])
def test_the_run_has_the_gap_s_text_and_nothing_else(name: str, request: pytest.FixtureRequest) -> None:
    backend: LocalBackend = request.getfixturevalue(name)
    model, wanted = required(backend._model), asked(backend)
    assert backend.capabilities.gaps
    replies = list(run_alone(backend, wanted))
    assert ended(replies).message == ""
    events = events_of(replies)
    end = events[-1]
    assert isinstance(end, GenerationFinished)
    text = model.tokenizer.decode(end.tokens)
    found = infill(model, PREFIX, SUFFIX, max_tokens=8, seed=3, config=wanted.config)
    assert found is not None
    assert text == found.text
    rows = [event.tokens[: event.text_length].tolist() for event in events if isinstance(event, CanvasCommitted)]
    assert [token for row in rows for token in row] == end.tokens.tolist()


def test_other_files_are_read(coder: LocalBackend) -> None:
    gap = TextGap(PREFIX, SUFFIX, "own.py", (GapFile("one.py", "ONE = 1\n"),))
    [started, *_] = run_alone(coder, dataclasses.replace(asked(coder), gap=gap))
    prompt = required(coder._model).tokenizer.decode(started.trace.header.prompt_ids, skip_special=False)  # type: ignore[union-attr]
    assert "<|file_sep|>one.py\nONE = 1\n<|file_sep|>own.py\n<|fim_prefix|>" in prompt


@pytest.mark.parametrize("name", ["skills", "coder"])
def test_it_ends_when_it_is_cancelled_and_when_its_time_is_over(name: str, request: pytest.FixtureRequest) -> None:
    backend: LocalBackend = request.getfixturevalue(name)
    cancel = threading.Event()
    cancel.set()
    events = events_of(list(run_alone(backend, asked(backend, cancel=cancel))))
    assert events[-1].reason == "cancelled"
    assert not any(isinstance(event, StepFinished) for event in events)
    events = events_of(list(run_alone(backend, asked(backend, seconds=0.0))))
    assert (events[-1].reason, events[-1].why, len(events[-1].tokens)) == ("length", LATE, 0)


def test_a_model_that_cannot_says_which_can(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    loaded(backend, "safelight-masked", "Masked")
    assert not backend.capabilities.gaps
    config = GenerationConfig()
    replies = list(run_alone(backend, GapRun(config, 0, TextGap("a", "b"))))
    assert "one with fill-in-the-middle tokens (Qwen2.5-Coder, StarCoder, CodeGemma)" in ended(replies).message
