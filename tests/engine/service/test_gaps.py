"""A completion with a suffix fills the gap: its text comes by the usual events, and is stored as any other."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import CanvasCommitted, GenerationConfig, GenerationFinished, StepFinished, infill
from engine.decoding.gap_filling import LATE
from engine.service import GapRun, LocalBackend, RunRequest, run_alone
from engine.service.backend import required
from engine.text.gap_markers import MARKERS, GapFile, TextGap
from tests.engine.gap_models import causal_folder
from tests.engine.service.test_local import ended, events, loaded

PREFIX, SUFFIX = "two 2, three 3, ", ", six 6."


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> LocalBackend:
    backend = LocalBackend(tmp_path_factory.mktemp("traces"))
    folder = causal_folder(tmp_path_factory.mktemp("coder"), ("<|endoftext|>", *MARKERS[0].tokens), seed=4)
    loaded(backend, str(folder), "Coder")
    return backend


def asked(backend: LocalBackend, **fields: Any) -> RunRequest:
    config = required(backend._model).generation_defaults.replace(max_new_tokens=8, max_denoising_steps=4)
    return GapRun(config, 3, TextGap(PREFIX, SUFFIX), **fields)


@pytest.mark.parametrize("name", ["skills", "coder"])
def test_the_run_has_the_gap_s_text_and_nothing_else(name: str, request: pytest.FixtureRequest) -> None:
    backend: LocalBackend = request.getfixturevalue(name)
    model, wanted = required(backend._model), asked(backend)
    assert backend.capabilities.gaps
    replies = list(run_alone(backend, wanted))
    found = events(replies)
    end = found[-1]
    assert isinstance(end, GenerationFinished)
    text = model.tokenizer.decode(end.tokens)
    filled = infill(model, PREFIX, SUFFIX, max_tokens=8, seed=3, config=wanted.config)
    assert filled is not None
    assert text == filled.text
    rows = [event.tokens[: event.text_length].tolist() for event in found if isinstance(event, CanvasCommitted)]
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
    found: list[Any] = events(list(run_alone(backend, asked(backend, cancel=cancel))))
    assert found[-1].reason == "cancelled"
    assert not any(isinstance(event, StepFinished) for event in found)
    last: Any = events(list(run_alone(backend, asked(backend, seconds=0.0))))[-1]
    assert (last.reason, last.why, len(last.tokens)) == ("length", LATE, 0)


def test_a_model_that_cannot_says_which_can(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    loaded(backend, "safelight-masked", "Masked")
    assert not backend.capabilities.gaps
    message = ended(backend, GapRun(GenerationConfig(), 0, TextGap("a", "b"))).message
    assert "one with fill-in-the-middle tokens (Qwen2.5-Coder, StarCoder, CodeGemma)" in message
