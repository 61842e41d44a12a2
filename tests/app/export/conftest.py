"""Runs to export: real ones of the embedded model, and a made-up one of 256 cells with a large vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine
from app.export.run import Options, export
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    Trace,
    TraceHeader,
)
from tests.app.inspector.made_up import real_run, step_event
from tests.engine.task_runs import FORMAT, decided, decision_header, rewritten, structured
from tests.engine.traces import header

PROMPT = "Spell the word zebrafinch."
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "\"'`&amp;",
    "\u202eabc",
    "\x00\x07\x1b[31m",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u2028",
    "\ud800",
    "<!--",
    "@@data@@",
    "\u0301",
)


def whole(run: Any, path: Path, options: Options | None = None) -> Path:
    """Export at one go."""
    shares = list(export(run, path, options))
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    return path


@pytest.fixture(scope="session")
def model() -> Any:
    return engine.load_model("safelight-mini")


@pytest.fixture(scope="session")
def real(model: Any) -> Trace:
    """A run of one block in which tokens are taken back."""
    return real_run(model, "Spell out the numbers from 1 to 40.", top_k=8, max_denoising_steps=12)


@pytest.fixture(scope="session")
def several(model: Any) -> Trace:
    """A run of several small blocks."""
    small = {"canvas_length": 8, "max_new_tokens": 32, "eos_token_ids": (127,)}
    return real_run(model, "Repeat the word go ten times.", 1, top_k=8, **small)


def made_up(cells: int = 256, steps: int = 48, vocabulary: int = 200_000, *, hostile: bool = False) -> Trace:
    """A run as a large model has them, from random numbers: noise of all tokens, and forty likely ones a position."""
    rng = np.random.default_rng(7)
    pieces = dict(enumerate(HOSTILE, start=10)) if hostile else {}
    config = GenerationConfig(max_denoising_steps=steps, top_k=8, eos_token_ids=(1,))
    trace = Trace(
        "made-up",
        PROMPT,
        config,
        5,
        piece=lambda token: pieces.get(token, "<eos>" if token == 1 else f" w{token}"),
        is_special=lambda token: token == 1,
    )

    def tokens(*shape: int) -> Any:
        return rng.integers(10, vocabulary, shape).astype(np.int32)

    likely = tokens(cells, 40)

    def guesses(count: int) -> Any:
        return np.take_along_axis(likely, np.argsort(rng.random((cells, 40)), axis=1)[:, :count], axis=1)

    pinned = np.zeros(cells, dtype=np.bool_)
    pinned[3] = True
    final = tokens(cells)
    if hostile:
        final[: len(HOSTILE)] = np.arange(10, 10 + len(HOSTILE))
    final[-5:] = 1
    trace.append(PrefillFinished(6, 0, 0.1))
    trace.append(CanvasStarted(0, tokens(cells), pinned))
    for step in range(steps):
        share = (step + 1) / steps
        accepted = rng.random(cells) < share
        argmax = np.where(rng.random(cells) < share, final, guesses(1)[:, 0])
        sampled = np.where(accepted, argmax, guesses(1)[:, 0])
        top = np.concatenate([argmax[:, None], guesses(7)], axis=1), -np.sort(-rng.dirichlet(np.ones(8), cells), axis=1)
        entropy, noise = rng.random(cells) * 12, tokens(cells)
        trace.append(step_event(step, argmax, sampled, accepted, entropy=entropy, top=top, noise=noise))
    trace.append(CanvasCommitted(0, final, cells - 5, steps, "step_cap"))
    trace.append(GenerationFinished("eos", final[:-5], 1, steps, 1.0))
    return trace


@pytest.fixture(scope="session")
def large() -> Trace:
    return made_up()


def made_of(header: TraceHeader, events: Iterable[Event], like: Trace | None = None) -> Trace:
    """A run in memory, whose tokens are written as letters or as in another run."""
    trace = Trace(header=header, piece=lambda token: chr(ord("a") + token % 26))
    if like is not None:
        trace = Trace(header=header, piece=like.piece, is_special=like.is_special)
    for event in events:
        trace.append(event)
    return trace


@pytest.fixture(scope="session")
def decision() -> Trace:
    """Three questions, read three times."""
    head = decision_header()
    return made_of(head, decided(head))


@pytest.fixture(scope="session")
def fitting() -> Trace:
    """A run that fits a format, in three rounds."""
    return made_of(header(16, 50, output_format=FORMAT), structured())


@pytest.fixture(scope="session")
def rewriting() -> Trace:
    """A run over masks, whose written tokens are replaced."""
    return made_of(header(5, 9), rewritten())


@pytest.fixture(scope="session")
def hostile() -> Trace:
    """Token 10 and on are texts that mean harm."""
    return made_up(24, 5, 60, hostile=True)
