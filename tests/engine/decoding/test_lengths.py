"""Runs by programs whose canvases differ in length: a last canvas that fits what is left. Plain: ``test_oracle``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    Fork,
    GenerationConfig,
    Mark,
    SafelightError,
    StepFinished,
    fork,
    generate,
    rewrite_marked,
)
from engine.decoding.influence import influence
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.seen import end_of, facts, of_kind
from tests.engine.decoding.test_step_program import OnDevice, tame
from tests.engine.tiny import CANVAS, tokens

PROMPT, MAX = tokens(7), 2 * CANVAS + 4  # the last canvas has 6 tokens
CONFIG = GenerationConfig(
    max_new_tokens=MAX, max_denoising_steps=6, entropy_bound=6.0, confidence_threshold=0.0, eos_token_ids=()
)
FITTING = CONFIG.replace(smallest_canvas=3)


def sharp() -> DiffusionGemma:
    """A network whose guesses settle."""
    made = tame()
    made.norm.weight.mul_(4.0)
    return made


def rows_of(events: list[Event]) -> tuple[list[Any], list[int]]:
    ends = of_kind(events, CanvasCommitted)
    return [end.tokens for end in ends], [end.steps for end in ends]


def test_the_last_canvas_fits_what_is_left() -> None:
    whole = list(generate(OnDevice(sharp()), PROMPT, CONFIG, 5))
    subject = OnDevice(sharp())
    cache = subject.new_cache()
    found = list(generate(subject, PROMPT, FITTING, 5, cache=cache))
    edge = next(at for at, event in enumerate(found) if getattr(event, "block_index", 0) == 2)
    assert facts(found[1:edge]) == facts(whole[1:edge])
    assert [len(start.canvas) for start in of_kind(found, CanvasStarted)] == [CANVAS, CANVAS, 6]
    last = end_of(found)
    assert (last.reason, last.blocks, len(last.tokens)) == ("length", 3, 2 * CANVAS + 6)
    text = torch.cat([PROMPT, torch.from_numpy(last.tokens[: 2 * CANVAS]).long()])
    assert cache.length == cache.shared(text.tolist()) == len(text)
    first, fresh = of_kind(found, StepFinished)[-of_kind(found, CanvasCommitted)[-1].steps], sharp().new_cache()
    sharp().prefill(text, fresh)
    guess = sharp().denoise(torch.from_numpy(of_kind(found, CanvasStarted)[-1].canvas).long(), fresh)
    np.testing.assert_array_equal(first.argmax_canvas, guess.argmax(-1).numpy())


def test_a_run_with_a_short_last_canvas_is_forked() -> None:
    subject = OnDevice(sharp())
    found = list(generate(subject, PROMPT, FITTING, 5))
    rows, steps = rows_of(found)
    for block in range(3):
        again = list(fork(subject, PROMPT, FITTING, 5, rows, steps, (Fork(block, 0, edits=((1, 9),)),)))
        start = next(at for at, event in enumerate(found) if getattr(event, "block_index", -1) == block)
        assert of_kind(again, CanvasStarted)[0].canvas[1] == 9
        same = list(fork(subject, PROMPT, FITTING, 5, rows, steps, (Fork(block, 1),)))
        assert facts(same[1:]) == facts(found[start:])
        assert [len(row) for row in rows[:block]] + [len(end.tokens) for end in of_kind(again, CanvasCommitted)] == [
            *(CANVAS, CANVAS, 6)
        ]
    longer = Fork(2, 0, settings=(("max_new_tokens", 4 * CANVAS),))
    on = list(fork(subject, PROMPT, FITTING, 5, rows, steps, (longer,)))
    assert [len(end.tokens) for end in of_kind(on, CanvasCommitted)] == [CANVAS, CANVAS]
    with pytest.raises(SafelightError, match="block 1 has 6 tokens; the canvas there has 10"):
        list(fork(subject, PROMPT, FITTING, 5, [rows[2], rows[1]], steps, (Fork(2, 0),)))


def test_spans_of_blocks_that_differ_in_length_are_written_anew() -> None:
    subject = OnDevice(sharp())
    rows, _ = rows_of(list(generate(subject, PROMPT, FITTING, 5)))
    found = list(rewrite_marked(subject, PROMPT, FITTING, 6, rows, (Mark(1, 2, 5), Mark(2, 0, 4))))
    middle, last = of_kind(found, CanvasCommitted)
    assert (len(middle.tokens), len(last.tokens)) == (CANVAS, 6)
    assert set(np.flatnonzero(middle.tokens != rows[1])) <= {2, 3, 4}
    assert last.tokens[4:].tolist() == rows[2][4:].tolist()
    with pytest.raises(SafelightError, match="the marked position 6 is outside the canvas of 6 tokens"):
        list(rewrite_marked(subject, PROMPT, FITTING, 6, rows, (Mark(2, 4, 7),)))
    measured = influence(subject, PROMPT, rows[:2], rows[2], 1, 5)
    assert len(measured.kl) == 6
