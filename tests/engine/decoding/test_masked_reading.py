"""Decisions read from masks, against the pass that they are, written out without a cache."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from engine import CanvasStarted, GenerationConfig, GenerationFinished, PrefillFinished, SlotsRead
from engine.decoding.performing import perform_all
from engine.decoding.reading import reading
from engine.decoding.run import Run
from engine.events import Event
from engine.models.causal.network import CausalNetwork
from engine.tasks.decisions.layout import NOISE, Layout, Slot
from tests.engine.causal import masked_network
from tests.engine.decoding.seen import end_of
from tests.engine.decoding.test_bidirectional import logits_of
from tests.engine.decoding.test_block_causal import block_logits

MASK, END, PAD = 8, 7, 0
SINGLE = Layout((NOISE, END, *[PAD] * 14), (Slot(0, ((1,), (2,))),))
JOINT = Layout((3, NOISE, 4, 3, 4, 4, NOISE, 5, END, PAD), (Slot(1, ((1,), (2,))), Slot(6, ((1, 6), (2,), (3,)))))


def read(network: CausalNetwork, prompt: list[int], layout: Layout, decoder: str, cancel: object = None) -> list[Event]:
    config = GenerationConfig(decoder=decoder, eos_token_ids=(END,), pad_token_id=PAD, top_k=2)
    run = Run(network, torch.tensor(prompt), config, 0, cancel, network.new_cache())  # type: ignore[arg-type]
    return list(perform_all(network, reading(run, layout, repeats=3)))  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", [SINGLE, JOINT], ids=["single", "joint"])
@pytest.mark.parametrize(("decoder", "shape"), [
    ("bidirectional", {}), ("bidirectional", {"shifts_masks": True}), ("block_causal", {"canvas_length": 4}),
    ("block_causal", {"canvas_length": 4, "blocks_follow_prompt": True}),
])  # fmt: skip
@pytest.mark.parametrize("length", [1, 7])
def test_slots_are_read_in_one_step(layout: Layout, decoder: str, shape: dict[str, int], length: int) -> None:
    network = masked_network(2, 2.0, **shape)
    prompt = [1 + place % 6 for place in range(length)]
    events = read(network, prompt, layout, decoder)
    places = [slot.position for slot in layout.slots]
    ids = [*prompt, *(MASK if token == NOISE else token for token in layout.canvas)]
    if decoder == "bidirectional":
        logits = logits_of(network, ids)
        rows = [length + place - network.config.shifts_masks for place in places]
    else:  # text in blocks sees nothing of the blocks behind
        logits = block_logits(network, ids, 4, length % 4 if network.config.blocks_follow_prompt else 0)
        rows = [length + place for place in places]
    wanted = logits[rows].double().log_softmax(-1)
    (slots,) = (event for event in events if isinstance(event, SlotsRead))
    for row, slot, own in zip(wanted, layout.slots, slots.logprobs, strict=True):
        np.testing.assert_allclose(own, [max(float(row[token]) for token in label) for label in slot.labels], rtol=1e-4)
    (started,) = (event for event in events if isinstance(event, CanvasStarted))
    assert started.filler == MASK
    assert [bool(held) for held in started.pinned_mask] == [token != NOISE for token in layout.canvas]
    assert isinstance(events[0], PrefillFinished)
    last = end_of(events)
    assert (last.reason, last.blocks) == ("eos", 1)  # it is not repeated
    for place, slot in zip(places, layout.slots, strict=True):
        assert last.tokens[place] in [label[0] for label in slot.labels]


def test_a_cancelled_read_has_no_answer() -> None:
    cancel = threading.Event()
    cancel.set()
    (last,) = read(masked_network(2), [1, 2], SINGLE, "bidirectional", cancel)
    assert isinstance(last, GenerationFinished)
    assert (last.reason, len(last.tokens)) == ("cancelled", 0)
