"""A decision's read against one plain step written out, and what it leaves behind."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from engine import (
    CanvasCommitted,
    CanvasStarted,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    SafelightError,
    SlotsRead,
    StepFinished,
)
from engine.decoding import reading
from engine.decoding.performing import perform_together
from engine.decoding.protocols import Denoise, Pass
from engine.decoding.reading import read
from engine.decoding.run import Run
from engine.events import Event
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.tasks.decisions.layout import NOISE, Layout, Slot
from tests.engine.decoding.seen import end_of, of_kind
from tests.engine.decoding.test_together import WIDE
from tests.engine.tiny import VOCABULARY, network, tokens

END, PAD = 1, 0
CONFIG = GenerationConfig(eos_token_ids=(END,), pad_token_id=PAD, top_k=4)
PROMPT = tokens(21, 3)
SINGLE = Layout((NOISE, END, *[PAD] * 14), (Slot(0, ((20,), (21,))),))
JOINT = Layout(
    (30, 31, NOISE, 9, 32, NOISE, 9, 33, NOISE, 9, END, *[PAD] * 21),
    (Slot(2, ((20,), (21, 25))), Slot(5, ((40, 50), (41,), (42,))), Slot(8, tuple((60 + n,) for n in range(10)))),
)


@pytest.fixture(scope="module")
def model() -> DiffusionGemma:
    return network(1, canvas_length=32, **WIDE)


def events(model: DiffusionGemma, layout: Layout = JOINT, **options: Any) -> list[Event]:
    return list(read(model, PROMPT, layout, CONFIG, **options))


@pytest.mark.parametrize("layout", [SINGLE, JOINT], ids=["single", "joint"])
@torch.inference_mode()
def test_a_read_is_one_plain_step(model: DiffusionGemma, layout: Layout) -> None:
    found = events(model, layout, seed=4)
    kinds = [PrefillFinished, CanvasStarted, StepFinished, SlotsRead, CanvasCommitted, GenerationFinished]
    assert [type(event) for event in found] == kinds
    _, started, step, slots, committed, finished = found
    assert isinstance(started, CanvasStarted)
    assert isinstance(step, StepFinished)
    assert isinstance(slots, SlotsRead)
    raw, places = np.array(layout.canvas), [slot.position for slot in layout.slots]
    assert started.pinned_mask.tolist() == (raw != NOISE).tolist()
    assert (started.canvas == raw)[started.pinned_mask].all()

    cache = model.new_cache()
    model.prefill(PROMPT, cache)
    logprobs = model.denoise(torch.from_numpy(started.canvas).long(), cache)[places].double().log_softmax(-1)
    for row, slot, own, is_label in zip(logprobs, layout.slots, slots.logprobs, slots.argmax_is_label, strict=True):
        wanted = [max(float(row[token]) for token in label) for label in slot.labels]
        np.testing.assert_allclose(own, wanted, rtol=1e-6)
        assert own.dtype == np.float32
        assert is_label == any(int(row.argmax()) in label for label in slot.labels)
    argmax = raw.copy()
    argmax[places] = logprobs.argmax(-1)
    for canvas in (step.argmax_canvas, step.candidates, step.next_canvas):
        assert canvas.tolist() == argmax.tolist()
    assert (step.step, step.temperature, step.accepted_mask.all()) == (0, 1.0, True)
    np.testing.assert_allclose(step.entropy[places], -(logprobs.exp() * logprobs).sum(-1), rtol=1e-5)
    assert not step.entropy[started.pinned_mask].any()
    best = logprobs.exp().topk(4, dim=-1)
    assert step.top_tokens is not None
    assert step.top_probabilities is not None
    assert step.top_tokens[places].tolist() == best.indices.tolist()
    np.testing.assert_allclose(step.top_probabilities[places], best.values, rtol=1e-5)
    assert (step.top_tokens[:, 0] == argmax).all()
    assert step.top_probabilities[started.pinned_mask].tolist() == [[1.0, 0, 0, 0]] * int(started.pinned_mask.sum())

    likeliest = [slot.labels[int(own.argmax())][0] for slot, own in zip(layout.slots, slots.logprobs, strict=True)]
    raw[places] = likeliest
    assert isinstance(finished, GenerationFinished)
    assert isinstance(committed, CanvasCommitted)
    assert finished.tokens.tolist() == raw[: layout.canvas.index(END)].tolist()
    assert (finished.reason, finished.blocks, finished.steps, committed.steps) == ("eos", 1, 1, 1)


def test_noise_is_of_the_request_alone(model: DiffusionGemma) -> None:
    """It comes again, and is another with any other seed, prompt and read. It is drawn as here on any machine."""
    first, again = events(model, seed=4, repeats=3), events(model, seed=4, repeats=3, cache=model.new_cache())
    canvases = [event.canvas.tolist() for event in of_kind(first, CanvasStarted)]
    assert canvases == [event.canvas.tolist() for event in of_kind(again, CanvasStarted)]
    assert canvases[0] == [30, 31, 19, 9, 32, 61, 9, 33, 101, 9, END, *[PAD] * 21]
    others = [events(model, seed=5), list(read(model, tokens(21, 4), JOINT, CONFIG, seed=4))]
    canvases += [of_kind(other, CanvasStarted)[0].canvas.tolist() for other in others]
    assert len({tuple(canvas) for canvas in canvases}) == 6


def test_it_is_read_again_where_it_is_in_doubt(model: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    found = events(model, repeats=3)
    reads = of_kind(found, SlotsRead)
    assert [event.block_index for event in reads] == [0, 1, 2, 3]
    assert len({event.logprobs[0].tobytes() for event in reads}) == 4
    result = end_of(found)
    assert (result.blocks, result.steps) == (4, 4)
    means = [np.mean([_shares(event.logprobs[place]) for event in reads], axis=0).argmax() for place in range(3)]
    at_slots = [result.tokens[slot.position] for slot in JOINT.slots]
    assert at_slots == [slot.labels[best][0] for slot, best in zip(JOINT.slots, means, strict=True)]
    monkeypatch.setattr(reading, "DOUBT", 10.0)
    assert len(of_kind(events(model, repeats=3), SlotsRead)) == 1


def _shares(logprobs: Any) -> Any:
    raw = np.exp(logprobs.astype(float))
    return raw / raw.sum()


def test_the_prompt_alone_stays_in_the_cache(model: DiffusionGemma) -> None:
    cache = model.new_cache()
    first = events(model, repeats=1, cache=cache)
    assert cache.length == cache.shared(PROMPT.tolist()) == len(PROMPT)
    again = events(model, repeats=1, cache=cache)
    assert [event.reused_tokens for event in of_kind(again, PrefillFinished)] == [len(PROMPT)]
    for one, other in zip(of_kind(first, SlotsRead), of_kind(again, SlotsRead), strict=True):
        assert [row.tolist() for row in one.logprobs] == [row.tolist() for row in other.logprobs]


def test_it_can_be_stopped_before_a_read(model: DiffusionGemma) -> None:
    cancel, found = threading.Event(), list[Event]()
    for event in read(model, PROMPT, JOINT, CONFIG, repeats=3, cancel=cancel):
        found.append(event)
        if isinstance(event, CanvasCommitted):
            cancel.set()
    last = end_of(found)
    assert (last.reason, last.blocks, len(of_kind(found, SlotsRead))) == ("cancelled", 1, 1)


def test_what_cannot_be_read_is_a_sentence(model: DiffusionGemma) -> None:
    strange = Layout(SINGLE.canvas, (Slot(0, ((20,), (VOCABULARY,))),))
    with pytest.raises(SafelightError, match="token id 128 is outside the vocabulary of 128"):
        events(model, strange)
    with pytest.raises(SafelightError, match="Shorten the prompt"):
        list(read(model, tokens(4090), SINGLE, CONFIG))
    run = reading.reading(Run.from_ids(model, PROMPT, CONFIG), SINGLE)
    for item in run:
        if isinstance(item, Denoise):
            item.logits = torch.full((16, VOCABULARY), torch.nan)
            break
        if isinstance(item, Pass):
            perform_together(model, [item])
    with pytest.raises(SafelightError, match="non-finite logits in block 1, step 1"):
        list(run)
