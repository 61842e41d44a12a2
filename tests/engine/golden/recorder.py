"""Runs transformers' ``generate`` and keeps what happens inside each denoising step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import DiffusionGemmaForBlockDiffusion
from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
    EntropyBoundSampler,
    EntropyBoundSamplerConfig,
    LinearTemperatureScheduleLogitsProcessor,
)

from engine import GenerationConfig

Row = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Step:
    """One denoising step as transformers took it; rows of C."""

    prefix_length: int
    canvas: Row
    temperature: float = 0.0
    candidates: Row | None = None
    entropy: Row | None = None
    accepted: Row | None = None
    argmax: Row | None = None
    next_canvas: Row | None = None


@dataclass(frozen=True)
class Run:
    steps: list[Step]
    new_tokens: Row  # without the prompt
    tokens_per_forward: float


def run(
    model: DiffusionGemmaForBlockDiffusion,
    prompt: Tensor,
    config: GenerationConfig,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,
) -> Run:
    """Generate with our settings; the global generator is seeded as ours is."""
    steps: list[Step] = []
    denoising_step = model._denoising_step
    accept_canvas = EntropyBoundSampler.accept_canvas
    scale = LinearTemperatureScheduleLogitsProcessor.__call__

    def recorded_scale(self: Any, ids: Tensor, scores: Tensor, cur_step: int) -> Tensor:
        scaled: Tensor = scale(self, ids, scores, cur_step)
        steps[-1].temperature = float((scores.double() / scaled.double()).median())
        return scaled

    def recorded_accept(self: Any, current: Tensor, drawn: Tensor, logits: Tensor, cur_step: int) -> Tensor:
        accepted: Tensor = accept_canvas(self, current, drawn, logits, cur_step)
        steps[-1].candidates = drawn[0].numpy().copy()
        steps[-1].accepted = self.accepted_token_mask[0].numpy().copy()
        steps[-1].entropy = torch.distributions.Categorical(logits=logits).entropy()[0].numpy().copy()
        return accepted

    def recorded_step(**arguments: Any) -> Any:
        steps.append(Step(arguments["input_ids"].shape[1], arguments["current_canvas"][0].numpy().copy()))
        result = denoising_step(**arguments)
        steps[-1].next_canvas, steps[-1].argmax = (row[0].numpy().copy() for row in result[:2])
        return result

    with monkeypatch.context() as patch:
        patch.setattr(LinearTemperatureScheduleLogitsProcessor, "__call__", recorded_scale)
        patch.setattr(EntropyBoundSampler, "accept_canvas", recorded_accept)
        patch.setattr(model, "_denoising_step", recorded_step, raising=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            output = model.generate(
                prompt[None],
                max_new_tokens=config.max_new_tokens,
                max_denoising_steps=config.max_denoising_steps,
                sampler_config=EntropyBoundSamplerConfig(config.entropy_bound),
                t_min=config.t_min,
                t_max=config.t_max,
                stability_threshold=config.stability_threshold,
                confidence_threshold=config.confidence_threshold,
                eos_token_id=list(config.eos_token_ids) or None,
                pad_token_id=config.pad_token_id,
                **options,
            )
    return Run(steps, output.sequences[0, len(prompt) :].numpy(), float(output.tokens_per_forward[0]))
