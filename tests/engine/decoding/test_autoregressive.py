"""Autoregressive decoding against one causal pass over the whole text, by a network that reads nothing from a cache."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import CanvasCommitted, CanvasStarted, GenerationConfig, GenerationFinished, SafelightError, generate
from engine.decoding.generate import fork, rewrite_marked
from engine.decoding.reading import read
from engine.events import Event, PrefillFinished, StepFinished
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.tasks.decisions.layout import Layout, Slot
from tests.engine.decoding.seen import end_of, of_kind, stopped
from tests.engine.tiny import CANVAS, CONFIG, FULL, SLIDING, VOCABULARY, network, tokens

ENDS = tuple(range(10, 20))
POSITIONS = 40
NARROW: dict[str, Any] = {"layers": (SLIDING, FULL), "num_experts": 1, "top_k_experts": 1}


def causal(seed: int = 0) -> CausalNetwork:
    """A random dense network with 40 positions."""
    torch.manual_seed(seed)
    fields = {field.name: getattr(CONFIG, field.name) for field in dataclasses.fields(CONFIG)}
    fields |= {"layers": (FULL, FULL), "max_position_embeddings": POSITIONS, "mask_token_id": 5}
    made = CausalNetwork(CausalConfig(**fields)).requires_grad_(False).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.shape[-1] ** -0.5)
    return made


MODELS = {
    "diffusion_gemma": lambda: network(1, **NARROW, max_position_embeddings=POSITIONS),
    "causal": causal,
}


@torch.inference_mode()
def oracle(model: Any, text: Sequence[int]) -> Tensor:
    """Predicts behind each token of a text: (T, V)."""
    return model.head(model.prefill(torch.tensor(text), model.new_cache()))


def likeliest(logits: Tensor, token: int, config: GenerationConfig) -> bool:
    """True for the best token that may stand there, but for rounding."""
    able = [other for other in range(VOCABULARY) if other not in config.banned_tokens]
    return token in able and float(logits[token]) >= float(logits[able].max()) - 1e-4


def check_run(model: Any, prompt: list[int], config: GenerationConfig, events: Sequence[Event]) -> list[int]:
    """That a greedy run is what its description says; returns its text, with an end token."""
    last, length = events[-1], config.canvas_length or CANVAS
    assert isinstance(last, GenerationFinished)
    committed, steps = of_kind(events, CanvasCommitted), of_kind(events, StepFinished)
    text = [token for event in committed for token in event.tokens[: event.text_length].tolist()]
    assert last.tokens.tolist() == text
    limit = min(config.max_new_tokens, POSITIONS - len(prompt))
    assert last.reason == ("length" if len(text) == limit else "eos")
    if last.reason == "eos":
        text.append(int(committed[-1].tokens[committed[-1].text_length]))
        assert text[-1] in config.eos_token_ids
    assert not set(text[:-1]) & set(config.eos_token_ids)
    pinned, logits = dict(config.pinned), oracle(model, prompt + text)
    for place, token in enumerate(text):
        assert token == pinned[place] if place in pinned else likeliest(logits[len(prompt) + place - 1], token, config)
    assert last.steps == len(steps) == len([place for place in range(len(text)) if place not in pinned])
    for step in steps:
        written = int(step.accepted_mask.sum())
        assert (step.next_canvas[step.accepted_mask] == step.candidates[step.accepted_mask]).all()
        assert (step.entropy > 0).sum() <= 1
        assert written > step.step
    filler = 5 if isinstance(model, CausalNetwork) else 0
    for event in of_kind(events, CanvasStarted):
        given = pinned if event.block_index == 0 else {}
        assert event.filler == filler
        assert np.flatnonzero(event.pinned_mask).tolist() == sorted(given)
        assert event.canvas.tolist() == [given.get(place, filler) for place in range(length)]
    return text


@pytest.mark.parametrize(("made", "runs"), [*zip(MODELS.values(), (15, 36), strict=True)], ids=MODELS)
def test_greedy_runs_are_the_oracle_s(made: Any, runs: int) -> None:
    """Whatever the lengths, the ends, the pins and the bans are, and whatever a cache holds from turns before."""
    model, rng = made(), random.Random(3)
    reasons, reused = set(), 0
    for number in range(runs):
        if number % 3 == 0:  # a conversation's first turn
            cache, prompt, held = model.new_cache(), tokens(rng.randint(1, 20), number).tolist(), list[int]()
        length = rng.choice((1, 3, CANVAS))
        config = GenerationConfig(
            decoder="autoregressive" if rng.random() < 0.5 or made is not causal else "",
            max_new_tokens=rng.randint(1, 12),
            eos_token_ids=ENDS if rng.random() < 0.7 else (),
            canvas_length=length,
            top_k=rng.choice((0, 2)),
            banned_tokens=tuple(rng.sample(range(20, VOCABULARY), 40)) if rng.random() < 0.3 else (),
            pinned=tuple((at, 20 + at) for at in rng.sample(range(length), length // 2)) if rng.random() < 0.3 else (),
        )
        events = list(generate(model, prompt, config, number, cache=cache))
        shared = next((at for at, pair in enumerate(zip(held, prompt, strict=False)) if pair[0] != pair[1]), len(held))
        [prefilled] = of_kind(events, PrefillFinished)
        assert (prefilled.prompt_tokens, prefilled.reused_tokens) == (len(prompt), min(shared, len(prompt) - 1))
        reused += prefilled.reused_tokens
        text = check_run(model, prompt, config, events)
        reasons.add(events[-1].reason)  # type: ignore[union-attr]
        held = prompt + text
        assert cache.shared(held) == cache.length
        assert config.pinned or cache.length == len(held) - 1
        held = held[: cache.length]
        prompt = [*held[: rng.randint(1, len(held))], *tokens(rng.randint(1, 3), number + 100).tolist()][
            -POSITIONS + 1 :
        ]
        prompt = prompt[: POSITIONS - 1]
    assert reasons == {"eos", "length"}
    assert reused > 25


def test_draws_are_repeated_by_their_seed_and_cuts_leave_the_likeliest() -> None:
    """The probabilities that they are drawn by: ``test_shares``."""
    model: Any = causal()
    drawn = GenerationConfig(
        decoder="autoregressive", max_new_tokens=6, eos_token_ids=(), sampling_temperature=1.5, banned_tokens=(3, 4)
    )

    def text(seed: int, **changes: Any) -> list[int]:
        last = end_of(generate(model, tokens(9, 2), drawn.replace(**changes), seed))
        return last.tokens.tolist()

    greedy = text(0, sampling_temperature=0.0)
    assert text(0) == text(0) != text(1)
    assert text(1, sampling_top_k=1) == text(1, sampling_temperature=1e-4) == greedy != text(0)
    assert not {3, 4} & {token for seed in range(4) for token in text(seed)}


@pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
def test_cancel_takes_effect_within_one_pass(made: Any) -> None:
    config = GenerationConfig(decoder="autoregressive", max_new_tokens=20, eos_token_ids=())
    for after in (0, CANVAS + 3):
        flag = threading.Event()
        seen = stopped(generate(made(), tokens(7), config, 0, flag), flag, after)
        last = end_of(seen)
        assert (last.reason, last.steps, last.blocks) == ("cancelled", after, -(-after // CANVAS))
        done = of_kind(seen, CanvasCommitted)
        assert last.tokens.tolist() == [token for event in done for token in event.tokens[: event.text_length]]
        shown = [int(step.next_canvas[place % CANVAS]) for place, step in enumerate(of_kind(seen, StepFinished))]
        assert last.tokens.tolist() == shown


def _read(model: Any, config: GenerationConfig) -> Any:
    return read(model, [1], Layout((-1,), (Slot(0, ((3,), (4,))),)), config)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m, c: generate(m, [1], c.replace(decoder="serial")), "unknown decoder 'serial'"),
        (lambda m, c: fork(m, [1], c, 0, [], [], []), "a fork needs .* this run uses autoregressive"),
        (
            lambda m, c: rewrite_marked(m, [1], c, 0, [tokens(CANVAS)], []),
            "an infill needs the decoder block_diffusion",
        ),
        (_read, "a decision needs the decoder block_diffusion"),
        (lambda m, c: generate(m, [1], c.replace(token_thoughts=True)), "thinking token by token needs a model with"),
        (lambda m, c: generate(m, [1], c.replace(pinned=((CANVAS, 1),))), "position 10 is outside the canvas"),
    ],
)
def test_bad_calls(ask: Any, message: str) -> None:
    with pytest.raises(SafelightError, match=message) as error:
        list(ask(network(0), GenerationConfig(decoder="autoregressive")))
    assert "\n" not in str(error.value)
