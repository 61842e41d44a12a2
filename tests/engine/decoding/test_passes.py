"""A decoder asks for passes: what performs them may take those of several runs in turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import CanvasCommitted, Event, GenerationConfig, generate
from engine.decoding.block_diffusion import block_diffusion
from engine.decoding.performing import complete, perform
from engine.decoding.prefill import prefill
from engine.decoding.protocols import Decoding, Denoise, LaunchStep, Pass, Prefill
from engine.decoding.run import Run
from engine.layers.kv_cache import PIECE, KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.tiny import CANVAS, network, tokens

CONFIG = GenerationConfig(max_new_tokens=2 * CANVAS, max_denoising_steps=3, confidence_threshold=0.0, eos_token_ids=())


class ByProgram:
    """A model whose steps are programs."""

    has_step_program = True

    def __init__(self, made: DiffusionGemma) -> None:
        self.network = made
        self.derived: dict[type, object] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)


MODELS = {"plain": network, "program": lambda: ByProgram(network())}


def decoding_of(model: Any, prompt: Tensor, seed: int, cache: KVCache) -> Decoding[None]:
    return block_diffusion(Run(model, prompt, CONFIG, seed, None, cache))


def facts(events: Iterator[Event]) -> list[list[object]]:
    """All that events tell but how long things took."""
    return [
        [
            type(event),
            *(np.asarray(value).tolist() for name, value in vars(event).items() if "seconds" not in name),
        ]
        for event in events
    ]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_runs_whose_passes_are_taken_in_turn_are_what_each_is_alone(model: Any) -> None:
    made = model()
    asked = [(tokens(7, 1), 3), (tokens(20, 2), 4)]
    alone = [facts(generate(made, prompt, CONFIG, seed)) for prompt, seed in asked]
    runs = [decoding_of(made, prompt, seed, made.new_cache()) for prompt, seed in asked]
    told: list[list[Event]] = [[], []]
    with torch.inference_mode():
        for turn in itertools.zip_longest(*runs):  # each generator goes on where its pass has been performed
            for place, item in enumerate(turn):
                if isinstance(item, Pass):
                    perform(made, item)
                elif item is not None:
                    told[place].append(item)
    assert [facts(iter(events)) for events in told] == alone
    assert any(isinstance(event, CanvasCommitted) for event in told[0])


@pytest.mark.parametrize(("model", "kinds"), [("plain", (Prefill, Denoise)), ("program", (Prefill, LaunchStep))])
def test_the_passes_of_a_run(model: str, kinds: tuple[type, type]) -> None:
    """The prompt's, then one a step; on the plain path one more a canvas that is committed."""
    made = MODELS[model]()
    asked: list[type] = []
    with torch.inference_mode():
        for item in decoding_of(made, tokens(7), 0, made.new_cache()):
            if isinstance(item, Pass):
                asked.append(type(item))
                perform(made, item)
    commits = [Prefill] if model == "plain" else []
    assert asked == [kinds[0], *[kinds[1]] * 3, *commits, *[kinds[1]] * 3]


def test_a_pass_lets_go_of_logits_that_are_taken() -> None:
    made = network()
    cache = made.new_cache()
    assert complete(made, prefill([tokens(PIECE + 1)], cache))
    assert cache.length == PIECE + 1
    wanted = Denoise(tokens(CANVAS), cache, torch.zeros(CANVAS, made.config.vocab_size))
    with pytest.raises(AssertionError, match="not performed"):
        wanted.take()
    wanted = Denoise(tokens(CANVAS), cache, torch.zeros(CANVAS, made.config.vocab_size))
    perform(made, wanted)
    assert wanted.take().shape == (CANVAS, made.config.vocab_size)
    assert (wanted.logits, wanted.self_conditioning_logits) == (None, None)
