"""``generate``: canvas options, cancelling, seeds, and what its events promise."""

from __future__ import annotations

import dataclasses
import pickle
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
    StepFinished,
    generate,
)
from engine.events import Event
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.seen import end_of, facts, steps_of, stopped
from tests.engine.tiny import CANVAS, VOCABULARY, all_but, network, tokens

PROMPT = tokens(12, 3)
CONFIGURED = GenerationConfig(max_new_tokens=30, max_denoising_steps=5, eos_token_ids=(), entropy_bound=6.0)


@pytest.fixture(scope="module")
def model() -> DiffusionGemma:
    return network(1)


def run(model: DiffusionGemma, seed: int = 0, **changes: Any) -> list[Event]:
    return list(generate(model, PROMPT, CONFIGURED.replace(**changes), seed))


def test_arrays_have_the_documented_types(model: DiffusionGemma) -> None:
    events = run(model, top_k=3)
    kinds = {
        CanvasStarted: {"canvas": ("int32", (CANVAS,)), "pinned_mask": ("bool", (CANVAS,))},
        StepFinished: {
            "argmax_canvas": ("int32", (CANVAS,)),
            "candidates": ("int32", (CANVAS,)),
            "next_canvas": ("int32", (CANVAS,)),
            "entropy": ("float32", (CANVAS,)),
            "accepted_mask": ("bool", (CANVAS,)),
            "top_tokens": ("int32", (CANVAS, 3)),
            "top_probabilities": ("float32", (CANVAS, 3)),
        },
        CanvasCommitted: {"tokens": ("int32", (CANVAS,))},
        GenerationFinished: {"tokens": ("int32", (30,))},
        PrefillFinished: {},
    }
    assert {type(event) for event in events} == set(kinds)
    for event in events:
        arrays = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
        found = {n: (str(a.dtype), a.shape) for n, a in arrays.items() if isinstance(a, np.ndarray)}
        assert found == kinds[type(event)]
        plain = [value for value in arrays.values() if not isinstance(value, np.ndarray)]
        assert {type(value) for value in plain} <= {int, float, str, type(None)}  # None: no filler
    assert steps_of(run(model))[0].top_tokens is None


def test_events_travel_by_pickle(model: DiffusionGemma) -> None:
    events = run(model, top_k=2)
    assert facts(pickle.loads(pickle.dumps(events))) == facts(events)
    with pytest.raises(dataclasses.FrozenInstanceError):
        steps_of(events)[0].step = 7  # type: ignore[misc]


def test_same_seed_repeats_and_another_differs(model: DiffusionGemma) -> None:
    first = facts(run(model, seed=4))
    torch.manual_seed(99)  # the global generator plays no part
    assert facts(run(model, seed=4)) == first != facts(run(model, seed=5))


@pytest.mark.parametrize("allowed", [(5,), tuple(range(20, 60))])
def test_nothing_but_allowed_tokens_appears(model: DiffusionGemma, allowed: tuple[int, ...]) -> None:
    events = run(model, banned_tokens=all_but(*allowed), top_k=8)
    for event in events:
        for name in ("canvas", "argmax_canvas", "candidates", "next_canvas", "tokens"):
            if hasattr(event, name):
                assert set(getattr(event, name).tolist()) <= set(allowed), name
        if isinstance(event, StepFinished):
            assert event.top_tokens is not None
            assert event.top_probabilities is not None
            assert set(event.top_tokens[event.top_probabilities > 0].tolist()) <= set(allowed)
            assert (event.entropy <= np.log(len(allowed)) + 1e-5).all()


def test_top_tokens(model: DiffusionGemma) -> None:
    count = 5
    for step in steps_of(run(model, top_k=count)):
        assert step.top_tokens is not None
        assert step.top_probabilities is not None
        assert (np.diff(step.top_probabilities, axis=1) <= 0).all()
        assert (step.top_probabilities.sum(axis=1) <= 1 + 1e-5).all()
        assert (step.top_tokens[:, 0] == step.argmax_canvas).all()
        assert all(len(set(row)) == count for row in step.top_tokens.tolist())
    free, watched = run(model), run(model, top_k=count)
    assert [s.next_canvas.tolist() for s in steps_of(free)] == [s.next_canvas.tolist() for s in steps_of(watched)]


@pytest.mark.parametrize("after", [0, 5, 7])
def test_cancel_takes_effect_within_one_step(model: DiffusionGemma, after: int) -> None:
    flag = threading.Event()
    seen = stopped(generate(model, PROMPT, CONFIGURED.replace(confidence_threshold=0.0), 0, flag), flag, after)
    assert len(steps_of(seen)) == after
    last = end_of(seen)
    assert (last.reason, last.steps, last.blocks) == ("cancelled", after, after // 5)
    assert len(last.tokens) == after // 5 * CANVAS
    assert last.tokens_per_forward == (len(last.tokens) / after if after else 0)


def test_non_finite_logits_are_an_error() -> None:
    poisoned = network(1)
    poisoned.get_parameter("layers.1.mlp.down_proj.weight").view(-1)[0] = torch.nan
    with pytest.raises(SafelightError, match=r"non-finite logits in block 1, step 1"):
        run(poisoned)


def test_the_room_left_bounds_the_text() -> None:
    model = network(1, max_position_embeddings=12 + 2 * CANVAS + 3)
    result = end_of(run(model))
    assert (result.blocks, result.reason) == (2, "length")
    assert run(network(1, max_position_embeddings=12 + CANVAS))[-1].blocks == 1  # type: ignore[union-attr]
    with pytest.raises(SafelightError, match="12 tokens long and the model has 21 positions"):
        run(network(1, max_position_embeddings=12 + CANVAS - 1))


@pytest.mark.parametrize(
    ("prompt", "changes", "message"),
    [
        ([], {}, "prompt is empty"),
        ([1, VOCABULARY], {}, "token id 128 is outside the vocabulary"),
        ([1] * 5000, {}, "5000 tokens long and the model has 4096 positions"),
        ([1], {"pinned": ((10, 1),)}, "position 10 is outside the canvas of 10"),
        ([1], {"banned_tokens": (3, 999)}, "banned_tokens has token id 999"),
    ],
)
def test_bad_calls(model: DiffusionGemma, prompt: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SafelightError, match=message) as error:
        list(generate(model, prompt, CONFIGURED.replace(**changes)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_an_error(model: DiffusionGemma, seed: int) -> None:
    with pytest.raises(SafelightError, match="the seed must be between 0 and"):
        run(model, seed=seed)
    assert len(run(model, seed=2**63 - 1)) > 5
