"""A text that repeats itself ends its run, with that reason, and what follows is as after any end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engine import (
    MINI,
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
    generate,
    load_model,
)
from engine.decoding.generate import without_repeats
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.token_sampler import TokenSampler
from engine.models.model import Model
from engine.text.formatted_answer import FormattedAnswer
from engine.text.output_format import OutputFormat
from engine.text.repeating import REPEATED
from engine.trace import Draft
from tests.engine.decoding.seen import end_of

LINE = "It said the same\n"
LENGTH = 16


@pytest.fixture(scope="module")
def model() -> Model:
    """One layer is enough: a script says what is drawn."""
    found = load_model(MINI, device="cpu")
    network: Any = found.network
    network.config = replace(network.config, layers=network.config.layers[:1])
    del network.layers[1:]
    return found


def write(monkeypatch: pytest.MonkeyPatch, model: Model, text: str) -> None:
    """Let the decoder draw a text, over and over."""
    ids = model.tokenizer.encode(text)

    def drawn() -> Iterator[int]:
        while True:
            yield from ids

    script = drawn()
    monkeypatch.setattr(TokenSampler, "draw", lambda _self, logits: torch.tensor([next(script)] * len(logits)))


def run(model: Model, most: int = 112, **options: object) -> list[Event]:
    config = model.generation_defaults.replace(decoder="autoregressive", canvas_length=LENGTH, max_new_tokens=most)
    return list(generate(model, model.tokenizer.encode("hello"), config, **options))  # type: ignore[arg-type]


def test_text_ends_with_the_line_that_is_there_for_the_fifth_time(
    monkeypatch: pytest.MonkeyPatch, model: Model
) -> None:
    write(monkeypatch, model, f"{LINE}  \n")
    events = run(model)
    end = end_of(events)
    assert (end.reason, end.why) == ("length", REPEATED)
    written = model.tokenizer.decode(end.tokens)
    assert written.startswith(LINE)
    assert written.count(LINE) == 5
    assert written.endswith(LINE)
    assert Draft.from_events(events[:-1], ()).committed == end.tokens.tolist()
    started, committed = (sum(isinstance(one, kind) for one in events) for kind in (CanvasStarted, CanvasCommitted))
    assert started == committed == end.blocks == -(-len(end.tokens) // LENGTH)


def test_lines_of_one_sign_go_on(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    """Other texts that do: ``text/test_repeating``."""
    write(monkeypatch, model, "0 0 0 0 0 0\n")
    end = end_of(run(model, most=76))
    assert (end.reason, end.why, len(end.tokens)) == ("length", "", 76)


def test_a_format_may_ask_for_it(model: Model) -> None:
    end = end_of(run(model, output_format=OutputFormat("regex", pattern="(It said the same\n){6}")))
    assert model.tokenizer.decode(end.tokens) == LINE * 6


def test_the_text_before_a_call_is_free(monkeypatch: pytest.MonkeyPatch, model: Model) -> None:
    write(monkeypatch, model, LINE)
    monkeypatch.setattr(FormattedAnswer, "is_free", True)
    monkeypatch.setattr(TokenSampler, "fitting", lambda self, _answer, logits, *_rest: self.draw(logits))
    end = end_of(run(model, output_format=OutputFormat("regex", pattern="x")))
    assert (end.reason, end.why) == ("length", REPEATED)


def test_blocks_of_noise_end_with_the_block_and_begin_no_other(model: Model) -> None:
    text = model.tokenizer.encode(LINE * 20)
    zeros, no = np.zeros(LENGTH, dtype=np.float32), np.zeros(LENGTH, dtype=np.bool_)

    def blocks(run: Run) -> Decoding[None]:
        yield PrefillFinished(1, 0, 0.1)
        for block in range(len(text) // LENGTH):
            row = np.array(text[block * LENGTH : (block + 1) * LENGTH], dtype=np.int32)
            yield CanvasStarted(block, row, no)
            if run.is_cancelled:
                yield GenerationFinished("cancelled", np.array(text[: block * LENGTH], dtype=np.int32), block, block, 0)
                return
            yield StepFinished(block, 0, 1.0, row, row, zeros, ~no, row, 0.1)
            yield CanvasCommitted(block, row, LENGTH, 1, "converged")
        yield GenerationFinished("length", np.array(text, dtype=np.int32), block, block, 0)

    for known in (0, 2):  # blocks of a fork that have no events
        run = Run.from_ids(model, [5], GenerationConfig())
        events = list(without_repeats(run, blocks, "block_diffusion", text[: known * LENGTH]))
        end = end_of(events)
        assert (end.reason, end.why) == ("length", REPEATED)
        assert 5 <= model.tokenizer.decode(end.tokens).count(LINE) <= 6
        assert isinstance(events[-2], CanvasCommitted)
