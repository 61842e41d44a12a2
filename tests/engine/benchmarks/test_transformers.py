"""The model of transformers that steps are compared with: made once, tied, and set as transformers sets it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion

from engine.benchmarks.transformers import _small_vision, random_model
from engine.memory.device import choose
from engine.models.diffusion_gemma.config import config_dict
from tests.engine.packing import packable


@pytest.fixture(scope="module")
def config() -> Any:
    return DiffusionGemmaConfig.from_dict({**config_dict(packable().config), "vision_config": _small_vision()})


def made(config: Any) -> Any:
    return random_model(DiffusionGemmaForBlockDiffusion, config, choose("cpu", "float32"))


def peak_of(make: Any) -> tuple[Any, int]:
    """Returns what ``make`` makes, and the most bytes that torch held for it at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        model = make()
    held = most = 0
    events = watched.profiler.kineto_results.events()
    for event in sorted((each for each in events if each.name() == "[memory]"), key=lambda each: each.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return model, most


def test_no_weight_is_made_twice(config: Any) -> None:
    """Encoder and decoder share theirs."""
    model, most = peak_of(lambda: made(config))
    own = sum(parameter.nbytes for parameter in model.parameters())
    assert own <= most <= 1.2 * own
    encoder, decoder = model.model.encoder.language_model, model.model.decoder
    assert encoder.layers[0].experts.gate_up_proj is decoder.layers[0].experts.gate_up_proj
    assert model.lm_head.weight is decoder.embed_tokens.weight


def test_it_is_the_model_that_transformers_makes(config: Any) -> None:
    model, theirs = made(config), DiffusionGemmaForBlockDiffusion._from_config(config, dtype=torch.float32)
    for (name, buffer), (their_name, their_buffer) in zip(model.named_buffers(), theirs.named_buffers(), strict=True):
        assert name == their_name
        assert torch.equal(buffer, their_buffer), name
    for (name, weight), (their_name, their_weight) in zip(
        model.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert (name, weight.shape, weight.dtype) == (their_name, their_weight.shape, their_weight.dtype)
        assert bool(weight.isfinite().all())
        if weight.numel() > 256:
            assert weight.std().item() == pytest.approx(their_weight.std().item(), rel=0.2, abs=1e-6), name
