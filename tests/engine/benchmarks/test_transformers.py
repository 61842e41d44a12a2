"""The model of transformers that steps are compared with: made once, tied, and set as transformers sets it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
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


def test_encoder_and_decoder_share_their_weights(config: Any) -> None:
    model = made(config)
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
