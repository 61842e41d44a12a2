"""Infilling with masks: marked spans are filled by text on both sides, everything else stays."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from engine import GenerationConfig, GenerationFinished, Mark, SafelightError
from engine.decoding.generate import decode_infill
from engine.decoding.masked_run import counts
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.events import CanvasCommitted, CanvasStarted, Event, PrefillFinished, StepFinished
from engine.models.causal.network import CausalNetwork
from engine.types import Tokens
from tests.engine.causal import masked_network
from tests.engine.decoding.seen import end_of
from tests.engine.decoding.test_bidirectional import logits_of

MASK, EOS, PAD, SIZE = 8, 7, 0, 5
CONFIG = GenerationConfig(
    decoder="bidirectional", remasking="low_confidence_static", canvas_length=SIZE, eos_token_ids=(EOS,),
    pad_token_id=PAD, max_denoising_steps=2,
)  # fmt: skip


def infilled(
    network: CausalNetwork, prompt: list[int], rows: Sequence[Tokens], marks: Sequence[Mark], cancel: object = None
) -> list[Event]:
    run = Run(network, torch.tensor(prompt), CONFIG, 3, cancel, network.new_cache())  # type: ignore[arg-type]
    return list(perform_all(network, decode_infill(run, rows, marks)))  # type: ignore[arg-type]


def plain(network: CausalNetwork, prompt: list[int], text: list[int], marks: Sequence[Mark], end: int) -> list[int]:
    """The text, of ``end`` tokens before its padding, with each marked block filled greedily, all of it read anew."""
    shifts, text = network.config.shifts_masks, list(text)
    for block in sorted({mark.block for mark in marks}):
        own = sorted(
            {block * SIZE + at for mark in marks if mark.block == block for at in range(mark.start, mark.stop)}
        )
        end = max(end, own[-1] + 1)
        for place in own:
            text[place] = MASK
        schedule = counts(len(own), 2, "even")
        for step, count in enumerate(schedule):
            masked = [place for place in own if text[place] == MASK]
            logits = logits_of(network, prompt + text[:end])
            found = logits[[len(prompt) + place - shifts for place in masked]]
            if own[-1] < end - 1:
                found[:, EOS] = -torch.inf
            if is_last := step == len(schedule) - 1:
                found[:, MASK] = -torch.inf
            best, tokens = found.softmax(-1).max(-1)
            for row in best.argsort(descending=True, stable=True)[: None if is_last else count].tolist():
                text[masked[row]] = int(tokens[row])
    return text[:end]


@pytest.mark.parametrize("seed", range(6))
def test_spans_are_written_as_the_definition_says_and_all_else_stays(seed: int) -> None:
    rng = random.Random(seed)
    network = masked_network(seed, 2.0, shifts_masks=seed % 2 == 1)
    prompt = [rng.randrange(1, 7) for _ in range(rng.randint(1, 6))]
    end = rng.randint(11, 15)
    text = [rng.randrange(1, 7) for _ in range(end)] + [PAD] * (15 - end)
    rows = [np.array(text[start : start + SIZE], dtype=np.int32) for start in range(0, 15, SIZE)]
    marks = [Mark(0, 1, 3), Mark(rng.choice([0, 2]), 0, rng.randint(1, 5))]
    events = infilled(network, prompt, rows, marks)
    expected = plain(network, prompt, text, marks, end)
    ends = expected.index(EOS) if EOS in expected else len(expected)
    last = end_of(events)
    assert (last.tokens.tolist(), last.reason) == (expected[:ends], "eos" if EOS in expected else "length")
    marked = {mark.block for mark in marks}
    assert isinstance(events[0], PrefillFinished)
    assert [event.block_index for event in events if isinstance(event, CanvasStarted)] == sorted(marked)
    assert [event.block_index for event in events if isinstance(event, CanvasCommitted)] == sorted(marked)
    for event in events:
        if isinstance(event, CanvasStarted):
            own = {at for mark in marks if mark.block == event.block_index for at in range(mark.start, mark.stop)}
            assert event.filler == MASK
            assert [event.canvas[at] == MASK for at in range(SIZE)] == [at in own for at in range(SIZE)]
            assert [bool(held) for held in event.pinned_mask] == [at not in own for at in range(SIZE)]
    assert last.steps == sum(isinstance(event, StepFinished) for event in events)


def test_a_cancelled_infill_keeps_the_text_and_a_mark_outside_it_is_refused() -> None:
    network, rows = masked_network(1), [np.array([1, 2, 3, 4, 5], dtype=np.int32)]
    cancel = threading.Event()
    cancel.set()
    events = infilled(network, [1], rows, [Mark(0, 0, 2)], cancel)
    assert isinstance(events[-1], GenerationFinished)
    assert (events[-1].reason, events[-1].tokens.tolist()) == ("cancelled", [1, 2, 3, 4, 5])
    with pytest.raises(SafelightError, match="block 1 is not finished"):
        infilled(network, [1], rows, [Mark(1, 0, 2)])
