"""Texts with holes, with a gap, and texts to revise: laid out on canvases and run by the embedded model."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine import (
    CanvasCommitted,
    CanvasStarted,
    GenerationConfig,
    GenerationFinished,
    SafelightError,
    StepFinished,
    infill,
)
from engine.config import USUAL_HOLE
from engine.decoding.gap_filling import LATE
from engine.service import ChatRun, GapRun, LocalBackend, RunAdvanced, RunEnded, RunRequest, run_alone
from engine.service.backend import required
from engine.service.outlining import noise_places, outlined
from engine.text.gap_markers import MARKERS, GapFile, TextGap
from engine.text.outline import INSTRUCTION, Hole, Outline, parse
from engine.text.output_format import OutputFormat
from tests.engine.gap_models import causal_folder
from tests.engine.service.test_local import ended, events, loaded, trace_of

CONFIG = GenerationConfig(max_new_tokens=64, eos_token_ids=(1, 8), pad_token_id=0, max_denoising_steps=6)
MESSAGES = ({"role": "user", "content": INSTRUCTION},)
LONG = "Monday, Tuesday, Wednesday, Thursday, and so it goes on until the end of the canvas is "


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def cells(outline: Outline, noise: float = 0.0, canvas: int = 32, room: int = 1_000) -> list[dict[int, int]]:
    """The given tokens of each canvas by their position; edits, too."""
    _, changes = outlined(outline, noise, CONFIG, canvas, letters, 5, room)
    return [dict(change.pinned) | dict(change.edits) for change in changes]


def test_a_hole_is_free_and_all_else_is_pinned_with_an_end_that_no_hole_may_write() -> None:
    config, changes = outlined(("ab", Hole(2, "tokens"), "c"), 0.0, CONFIG, 8, letters, 0, 100)
    assert [change.pinned for change in changes] == [((0, 97), (1, 98), (4, 99), (5, 1), (6, 1), (7, 1))]
    assert (config.max_new_tokens, config.banned_tokens) == (8, (1, 8))
    config, changes = outlined(("ab", Hole()), 0.0, CONFIG, 8, letters, 0, 100)  # open at its end
    assert [change.pinned for change in changes] == [((0, 97), (1, 98))]
    assert (config.max_new_tokens, config.banned_tokens) == (64, ())


def test_lengths_are_counted_in_tokens_or_by_the_tokens_of_a_usual_word() -> None:
    (found,) = cells((Hole(3, "tokens"), "x"))
    assert min(found) == 3
    (found,) = cells((Hole(2), "x"))
    assert min(found) == 10  # letters are tokens here; a word has five with the space behind it
    (found,) = cells((Hole(50, "percent", "twelve words"), "x"))
    assert min(found) == 6
    (found,) = cells((Hole(), "x"))
    assert min(found) == USUAL_HOLE


def test_a_hole_that_does_not_fit_begins_on_the_next_canvas_with_the_text_behind_it() -> None:
    first, second = cells(("x" * 20, Hole(), "behind"))
    assert [first[at] for at in range(20, 32)] == [0] * 12
    assert min(second) == USUAL_HOLE
    first, second = cells(("x" * 20, Hole(40, "tokens"), "yz"))  # larger than a canvas: it is split
    assert (max(first), min(second)) == (19, 28)


def test_what_does_not_fit_is_said_before_anything_runs() -> None:
    with pytest.raises(SafelightError, match="takes 64 tokens with its gaps, and 40 fit behind the prompt; shorten"):
        cells(("x" * 40, Hole(), "y"), room=40)


def test_a_share_of_a_text_to_revise_is_noise_and_nothing_is_pinned() -> None:
    config, (change,) = outlined(("x" * 20,), 0.3, CONFIG, 32, letters, 5, 100)
    assert not change.pinned
    assert sum(token == ord("x") for _, token in change.edits) == 14
    assert set(range(20)) - dict(change.edits).keys() == set(noise_places(20, 0.3, 5))
    assert config.banned_tokens == ()
    longer = outlined(("x" * 40,), 0.3, CONFIG, 32, letters, 5, 100)
    assert longer[0].banned_tokens == (1, 8)  # an end in the first canvas would lose the second
    assert longer[1][1].pinned == tuple((at, 1) for at in range(8, 32))


@pytest.mark.parametrize(
    "changes",
    [
        {"output_format": OutputFormat("json_object")},
        {"think": True},
        {"noise": 0.3},
        {"noise": 2.0, "outline": ("x",)},
        {"outline": ("no hole",)},
        {"outline": (), "noise": 0.3},
    ],
)
def test_an_outline_goes_with_nothing_else(changes: dict[str, Any]) -> None:
    fields = {"messages": MESSAGES, "config": CONFIG, "seed": 1, "outline": ("a", Hole())} | changes
    with pytest.raises(SafelightError):
        ChatRun(**fields)


def events_of(backend: LocalBackend, request: RunRequest) -> tuple[list[Any], str]:
    replies = list(run_alone(backend, request))
    assert isinstance(replies[-1], RunEnded)
    return [reply.event for reply in replies if isinstance(reply, RunAdvanced)], replies[-1].message


def text_of(backend: LocalBackend, events: Sequence[Any]) -> str:
    (end,) = (event for event in events if isinstance(event, GenerationFinished))
    assert end.reason == "eos"
    return required(backend._model).tokenizer.decode(end.tokens)


def defaults(backend: LocalBackend) -> GenerationConfig:
    return required(backend._model).generation_defaults


def filling(backend: LocalBackend, text: str, seed: int = 1) -> RunRequest:
    return ChatRun(defaults(backend), seed, MESSAGES, outline=parse(text)[1])


@pytest.mark.parametrize(
    ("before", "hole", "behind"),
    [
        ("The <eos> bird catches the ", "[[…]]", "."),  # where letters make no special token
        ("3 6 9 ", "[[2 tokens]]", " 15 18"),
        (LONG, "[[…]]", ", as was written."),
    ],
)
def test_the_answer_is_the_text_with_its_gap_filled(skills: LocalBackend, before: str, hole: str, behind: str) -> None:
    events, message = events_of(skills, filling(skills, before + hole + behind))
    assert not message
    text = text_of(skills, events)
    assert text.startswith(before)
    assert text.endswith(behind)
    assert len(text) <= len(before) + len(behind) + USUAL_HOLE
    first = next(event for event in events if isinstance(event, CanvasStarted))
    assert first.pinned_mask.sum() >= min(64 - USUAL_HOLE, len(before))


@pytest.mark.parametrize(("outline", "noise"), [(("2 4 ", Hole()), 0.0), (("2 4 6 9 7",), 0.3)])
def test_a_text_without_an_end_goes_on_and_one_with_a_fault_is_mended(
    skills: LocalBackend, outline: Outline, noise: float
) -> None:
    asked = ({"role": "user", "content": "Sort 9 4 7 2 6."},)
    events, message = events_of(skills, ChatRun(defaults(skills), 3, asked, outline=outline, noise=noise))
    assert (message, text_of(skills, events)) == ("", "2 4 6 7 9")


def test_a_decoder_without_noise_is_refused_in_one_sentence(skills: LocalBackend) -> None:
    config = defaults(skills).replace(decoder="autoregressive")
    request = ChatRun(config, 1, MESSAGES, outline=("a", Hole(), "b"))
    events, message = events_of(skills, request)
    assert not events
    assert "filling in gaps needs the decoder block_diffusion" in message


PREFIX, SUFFIX = "two 2, three 3, ", ", six 6."


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> LocalBackend:
    backend = LocalBackend(tmp_path_factory.mktemp("traces"))
    folder = causal_folder(tmp_path_factory.mktemp("coder"), ("<|endoftext|>", *MARKERS[0].tokens), seed=4)
    loaded(backend, str(folder), "Coder")
    return backend


def gap_run(backend: LocalBackend, **fields: Any) -> RunRequest:
    config = required(backend._model).generation_defaults.replace(max_new_tokens=8, max_denoising_steps=4)
    return GapRun(config, 3, TextGap(PREFIX, SUFFIX), **fields)


@pytest.mark.parametrize("name", ["skills", "coder"])
def test_the_run_has_the_gap_s_text_and_nothing_else(name: str, request: pytest.FixtureRequest) -> None:
    backend: LocalBackend = request.getfixturevalue(name)
    model, wanted = required(backend._model), gap_run(backend)
    assert backend.capabilities.gaps
    replies = list(run_alone(backend, wanted))
    assert trace_of(replies).header.format_version == (5 if name == "skills" else 2)  # some canvases are shorter
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
    [started, *_] = run_alone(coder, dataclasses.replace(gap_run(coder), gap=gap))
    prompt = required(coder._model).tokenizer.decode(started.trace.header.prompt_ids, skip_special=False)  # type: ignore[union-attr]
    assert "<|file_sep|>one.py\nONE = 1\n<|file_sep|>own.py\n<|fim_prefix|>" in prompt


@pytest.mark.parametrize("name", ["skills", "coder"])
def test_it_ends_when_it_is_cancelled_and_when_its_time_is_over(name: str, request: pytest.FixtureRequest) -> None:
    backend: LocalBackend = request.getfixturevalue(name)
    cancel = threading.Event()
    cancel.set()
    found: list[Any] = events(list(run_alone(backend, gap_run(backend, cancel=cancel))))
    assert found[-1].reason == "cancelled"
    assert not any(isinstance(event, StepFinished) for event in found)
    last: Any = events(list(run_alone(backend, gap_run(backend, seconds=0.0))))[-1]
    assert (last.reason, last.why, len(last.tokens)) == ("length", LATE, 0)


def test_a_model_that_cannot_says_which_can(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    loaded(backend, "safelight-masked", "Masked")
    assert not backend.capabilities.gaps
    message = ended(backend, GapRun(GenerationConfig(), 0, TextGap("a", "b"))).message
    assert "one with fill-in-the-middle tokens (Qwen2.5-Coder, StarCoder, CodeGemma)" in message
