"""Whole generations, token for token and step for step, against transformers' ``generate`` on the same draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from torch import Tensor
from transformers import DiffusionGemmaForBlockDiffusion

from engine import (
    CanvasStarted,
    Fork,
    GenerationConfig,
    Model,
    Trace,
    fork,
    generate,
    load_model,
)
from tests.engine.golden import recorder
from tests.engine.golden.reference import Shape, build, save
from tests.engine.golden.test_modes import tokens

ENTROPY_TOLERANCE = 5e-4  # nats; rounding adds up over the steps
Pair = tuple[DiffusionGemmaForBlockDiffusion, Model]

BASE = GenerationConfig(max_new_tokens=36, max_denoising_steps=7, eos_token_ids=())
EAGER = BASE.replace(max_denoising_steps=16, entropy_bound=8.0, confidence_threshold=0.5)  # some of these converge
PLAIN = Shape(conditioning=0.1)
SHARP = Shape(conditioning=0.1, sharpness=8.0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Shape], Pair]:
    """A reference model and ours, loaded from its files; made once a shape."""
    made: list[tuple[Shape, Pair]] = []

    def get(shape: Shape) -> Pair:
        for known, found in made:
            if known == shape:
                return found
        theirs = build(shape, seed=2)
        made.append((shape, (theirs, load_model(save(theirs, tmp_path_factory.mktemp("pair")), dtype="float32"))))
        return made[-1][1]

    return get


def play(
    model: Model, prompt: Sequence[int] | Tensor, config: GenerationConfig, seed: int, changes: Sequence[Fork] = ()
) -> Trace:
    trace = Trace(model.name, "", config, seed)
    events = fork(model, prompt, config, seed, [], [], changes) if changes else generate(model, prompt, config, seed)
    for event in events:
        trace.append(event)
    return trace


def assert_same(theirs: recorder.Run, ours: Trace, prompt_length: int) -> None:
    """Every step's draws and decisions, and every committed token."""
    starts = {event.block_index: event for event in ours.events if isinstance(event, CanvasStarted)}
    length = len(starts[0].canvas)
    assert len(theirs.steps) == len(ours.steps)
    for expected, found in zip(theirs.steps, ours.steps, strict=True):
        place = f"block {found.block_index}, step {found.step}"
        assert expected.prefix_length == prompt_length + found.block_index * length, place
        if found.step == 0:
            np.testing.assert_array_equal(expected.canvas, starts[found.block_index].canvas, place)
        assert expected.temperature == pytest.approx(found.temperature, rel=1e-5), place
        np.testing.assert_array_equal(expected.candidates, found.candidates, place)
        np.testing.assert_array_equal(expected.accepted, found.accepted_mask, place)
        np.testing.assert_array_equal(expected.argmax, found.argmax_canvas, place)
        np.testing.assert_array_equal(expected.next_canvas, found.next_canvas, place)
        np.testing.assert_allclose(found.entropy, expected.entropy, rtol=0, atol=ENTROPY_TOLERANCE, err_msg=place)
    np.testing.assert_array_equal(theirs.new_tokens, np.concatenate([event.tokens for event in ours.committed]))


CASES = {
    "three blocks to the step cap": (PLAIN, BASE, 9),
    "prompt beyond the window": (PLAIN, BASE, 61),
    "early stop": (SHARP, EAGER, 9),
    "confident alone": (SHARP, EAGER.replace(stability_threshold=0, confidence_threshold=0.3), 9),
    "not a whole number of canvases": (PLAIN, BASE.replace(max_new_tokens=13), 9),
    "grouped experts": (Shape({"num_experts": 16, "top_k_experts": 3}, conditioning=0.1), BASE, 9),
}


@pytest.mark.parametrize("name", CASES)
def test_generations_agree(name: str, pair: Callable[[Shape], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    shape, config, prompt_length = CASES[name]
    theirs, ours = pair(shape)
    prompt = tokens(prompt_length, 5)
    expected, found = recorder.run(theirs, prompt, config, 1, monkeypatch), play(ours, prompt, config, 1)
    assert_same(expected, found, prompt_length)
    reasons = {event.reason for event in found.committed}
    assert ("converged" in reasons) == ("early stop" in name or name == "confident alone")
    assert len(found.committed) == -(-config.max_new_tokens // shape.canvas_length)
    assert found.result is not None
    assert found.result.reason == "length"
    if config.pad_token_id not in found.result.tokens:
        assert found.result.tokens_per_forward == pytest.approx(expected.tokens_per_forward)


@pytest.mark.parametrize(("block", "place"), [(0, 0), (1, 11)])
def test_end_token_inside_a_canvas(
    block: int, place: int, pair: Callable[[Shape], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens that the model writes anyway serve as end tokens; the shorter text is a prefix of the longer one."""
    theirs, ours = pair(PLAIN)
    prompt = tokens(9, 5)
    free = np.concatenate([event.tokens for event in play(ours, prompt, BASE, 2).committed])
    at = 12 * block + place
    at = next(i for i in range(at, 12 * (block + 1)) if free[i] not in free[:i]) if place < 11 else at
    ends = tuple({int(free[at]), 77 if 77 not in free else 76})
    first = int(np.flatnonzero(np.isin(free, ends))[0])
    config = BASE.replace(eos_token_ids=ends, pad_token_id=3)
    found = play(ours, prompt, config, 2)
    assert_same(recorder.run(theirs, prompt, config, 2, monkeypatch), found, 9)
    last = found.committed[-1]
    assert last.block_index == first // 12
    assert last.text_length == first % 12
    assert (last.tokens[last.text_length + 1 :] == 3).all()
    assert found.result is not None
    assert found.result.reason == "eos"
    np.testing.assert_array_equal(found.result.tokens, free[:first])


def test_an_edited_first_canvas_is_the_reference_s_starting_canvas(
    pair: Callable[[Shape], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = pair(PLAIN)
    prompt, canvas = tokens(9, 5), tokens(12, 6)
    expected = recorder.run(theirs, prompt, BASE, 3, monkeypatch, decoder_input_ids=canvas[None])
    found = play(ours, prompt, BASE, 3, [Fork(0, 0, edits=tuple(enumerate(canvas.tolist())))])
    np.testing.assert_array_equal(expected.steps[0].canvas, canvas)
    assert_same(expected, found, 9)
