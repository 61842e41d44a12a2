"""Tokens are drawn from what transformers' own warpers leave, and the rules of WeDLM's and SDAR's authors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine import GenerationConfig, StepFinished, generate
from engine.decoding.sampler import Sampler
from engine.decoding.sampling import SDAR, TRANSFORMERS, WEDLM, SamplingOrder, probabilities_of
from tests.engine.tiny import CONFIG, network


def cases() -> Iterator[tuple[Tensor, GenerationConfig]]:
    """Random logits, half of them with many ties, whose sums meet top-p exactly; and all settings."""
    rng, draws = random.Random(0), torch.Generator().manual_seed(0)
    for number in range(120):
        size = rng.choice([1, 2, 5, 16, 40])
        logits = rng.choice([0.5, 1, 3]) * torch.randn(rng.randint(1, 4), size, generator=draws)
        if number % 2:
            logits = logits.round()
        if number % 4 == 3:  # powers of two, so that no sum is rounded
            logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()[:, torch.randperm(4, generator=draws)]
        if size > 5 and rng.random() < 0.2:
            logits[:, :3] = -torch.inf  # banned
        yield (
            logits,
            GenerationConfig(
                sampling_temperature=rng.choice([0.3, 0.6, 1.0, 1.0, 1.7]),
                sampling_top_k=rng.choice([0, 1, 3, 20, 100]),
                sampling_top_p=rng.choice([1.0, 0.95, 0.875, 0.75, 0.5, 0.1]),
                sampling_min_p=rng.choice([0.0, 0.0, 0.05, 0.5, 1.0]),
            ),
        )


def test_transformers_order_is_that_of_its_own_warpers() -> None:
    kept = set()
    for logits, config in cases():
        scores, ids = logits.clone(), torch.zeros(len(logits), 1, dtype=torch.long)
        for warper in (
            TemperatureLogitsWarper(config.sampling_temperature),
            TopKLogitsWarper(config.sampling_top_k) if config.sampling_top_k else None,
            TopPLogitsWarper(config.sampling_top_p) if config.sampling_top_p < 1 else None,
            MinPLogitsWarper(config.sampling_min_p) if config.sampling_min_p else None,
        ):
            scores = scores if warper is None else warper(ids, scores)
        found = probabilities_of(logits, config, TRANSFORMERS)
        assert found.equal(scores.softmax(-1))
        kept |= set((found > 0).sum(-1).tolist())
    assert len(kept) > 8


def plain(logits: list[float], config: GenerationConfig, order: SamplingOrder) -> set[int]:
    """The tokens that may be drawn, as the two authors' files have it: those before one may come to top-p exactly."""
    scale = config.sampling_temperature if order.temperature_first else 1.0
    likeliest = torch.tensor(logits).argsort(descending=True, stable=True).tolist()
    if config.sampling_top_k:
        least = logits[likeliest[: config.sampling_top_k][-1]]
        likeliest = [token for token in likeliest if logits[token] >= least]
    shares = (torch.tensor([logits[token] for token in likeliest]) / scale).softmax(-1)
    sums = [0.0, *shares.cumsum(0).tolist()] if config.sampling_top_p < 1 else [0.0] * len(likeliest)
    return {token for rank, token in enumerate(likeliest) if sums[rank] <= config.sampling_top_p and shares[rank] > 0}


@pytest.mark.parametrize("order", [WEDLM, SDAR], ids=["WeDLM", "SDAR"])
def test_the_authors_orders(order: SamplingOrder) -> None:
    for logits, config in cases():
        config = config.replace(sampling_min_p=0.0)
        found = probabilities_of(logits, config, order)
        for row, shares in zip(logits.tolist(), found, strict=True):
            kept = plain(row, config, order)
            if len(set(row)) == len(row):  # which of equals top-p leaves out is the sort's
                assert set(shares.nonzero()[:, 0].tolist()) == kept
            assert int((shares > 0).sum()) == len(kept)
            own = torch.full((len(row),), -torch.inf)
            own[shares > 0] = torch.tensor(row)[shares > 0] / config.sampling_temperature
            torch.testing.assert_close(shares, own.softmax(-1))


def test_block_diffusion_cuts_before_its_temperature() -> None:
    """vLLM's model does so, whose filter has the order of transformers' warpers; banned tokens are out before."""
    for logits, config in cases():
        if logits.isinf().any() or not config.cuts:
            continue
        length, size = logits.shape
        config = config.replace(canvas_length=length, banned_tokens=(0,) if size > 5 else ())
        sampler = Sampler.from_settings(replace(CONFIG, vocab_size=size), config, torch.device("cpu"), 0)
        scores, ids = logits.clone(), torch.zeros(length, 1, dtype=torch.long)
        scores[:, list(config.banned_tokens)] = -torch.inf
        for warper in (
            TopKLogitsWarper(config.sampling_top_k) if config.sampling_top_k else None,
            TopPLogitsWarper(config.sampling_top_p) if config.sampling_top_p < 1 else None,
            MinPLogitsWarper(config.sampling_min_p) if config.sampling_min_p else None,
        ):
            scores = scores if warper is None else warper(ids, scores)
        assert sampler.scale(logits, 0.7, 0, 0).equal(scores / 0.7)


def test_a_canvas_of_the_likeliest_tokens_alone_is_certain() -> None:
    model, likeliest = network(), GenerationConfig(max_denoising_steps=4, max_new_tokens=8, sampling_top_k=1)
    steps = [event for event in generate(model, [3, 4], likeliest, seed=1) if isinstance(event, StepFinished)]
    assert steps
    for step in steps:
        assert step.candidates.tolist() == step.argmax_canvas.tolist()
        assert not step.entropy.any()
        assert step.accepted_mask.all()
