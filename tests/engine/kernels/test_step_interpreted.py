"""The kernels at a step's ends and the router, against plain torch."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from engine.config import GenerationConfig, LayerConfig
from engine.decoders import ACCEPTANCE
from engine.decoding import sampling
from engine.decoding.acceptance import rule_of
from engine.decoding.step_program import knobs_of
from engine.kernels import norms, reference_step
from engine.kernels import router as routing
from engine.kernels.reference_step import VocabularyResult
from engine.kernels.settle import Buffers, settle
from engine.layers.mlp import Router
from engine.layers.rope import cos_sin, inverse_frequencies
from engine.quant import INT8, pack, unpack
from tests.engine.tiny import network

EPS = 1e-6


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# --- router --------------------------------------------------------------------------------------------------------


def plain_router(experts: int, hidden: int, top_k: int, dtype: torch.dtype) -> Router:
    router = Router(network(num_experts=experts, hidden_size=hidden, top_k_experts=top_k).config).requires_grad_(False)
    router.proj.weight.copy_(noise(experts, hidden, seed=1) * hidden**-0.5)
    router.per_expert_scale.copy_(noise(experts, seed=2).exp())
    return router.to(dtype)


@pytest.mark.parametrize(
    ("tokens", "hidden", "experts", "top_k", "splits", "dtype"),
    [
        (1, 64, 4, 2, 1, torch.float32),
        (19, 330, 128, 8, 3, torch.float32),
        (33, 130, 24, 3, None, torch.float32),
        (16, 330, 127, 5, 5, torch.float32),  # the last of the splits are empty
        (70, 64, 6, 6, None, torch.float32),  # all experts
        (20, 128, 12, 2, 2, torch.float16),
    ],
)
def test_router(tokens: int, hidden: int, experts: int, top_k: int, splits: int | None, dtype: torch.dtype) -> None:
    """Against the layer; with fewer digits, scores that are equal after rounding."""
    router, x = plain_router(experts, hidden, top_k, dtype), noise(tokens, hidden).to(dtype)
    wanted, best = router.choose(x)
    for _ in range(2):  # the second time the counters are as the first left them
        weights, chosen = routing.route(x, router.proj.weight, router.per_expert_scale, top_k, splits)
        assert torch.equal(chosen, best)
        torch.testing.assert_close(weights, wanted, atol=1e-5, rtol=2e-3 if dtype == torch.float16 else 1e-5)


def test_of_equal_scores_the_lowest_expert_comes_first() -> None:
    router, x = plain_router(24, 64, 5, torch.float32), noise(3, 64)
    router.proj.weight[7:12] = router.proj.weight[20]
    router.proj.weight[0] = router.proj.weight[3]
    _, chosen = routing.route(x, router.proj.weight, router.per_expert_scale, 5)
    scores = torch.nn.functional.linear(x, router.proj.weight)
    assert chosen.tolist() == scores.sort(dim=-1, descending=True, stable=True).indices[:, :5].tolist()
    _, chosen = routing.route(torch.zeros_like(x), router.proj.weight, router.per_expert_scale, 5)
    assert chosen.tolist() == 3 * [[0, 1, 2, 3, 4]]


def test_scores_are_compared_as_the_number_type_holds_them() -> None:
    """A sum that is larger by less than its last digit is equal, so that the lower expert comes first."""
    router, x = plain_router(12, 64, 2, torch.float16), torch.zeros(2, 64, dtype=torch.float16)
    x[:, 0], x[:, 1] = 1.0, 2.0**-12
    router.proj.weight.zero_()
    router.proj.weight[3, 0] = router.proj.weight[5, 0] = router.proj.weight[5, 1] = 1.0
    _, chosen = routing.route(x, router.proj.weight, router.per_expert_scale, 2)
    assert chosen.tolist() == [[3, 5], [3, 5]]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_no_number_still_chooses_experts_that_are_there() -> None:
    """Places in memory follow from a choice. The weights say that something is wrong."""
    router, x = plain_router(6, 64, 2, torch.float32), noise(4, 64)
    x[1, 5], x[2] = torch.nan, torch.inf
    weights, chosen = routing.route(x, router.proj.weight, router.per_expert_scale, 2)
    assert chosen.min() >= 0
    assert chosen.max() < 6
    assert weights[1].isnan().all()
    assert weights[[0, 3]].isfinite().all()


# --- inputs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("count", "text_rows"), [(5, 0), (7, 3)])
def test_embeddings(count: int, text_rows: int, packed: bool) -> None:
    table, fed = noise(40, 70), noise(count - text_rows, 70, seed=1)
    ids = torch.randint(40, (count,), generator=torch.Generator().manual_seed(2))
    weight = pack(table, INT8) if packed else table
    embedded = (unpack(weight) if packed else table)[ids] * 8.5
    want = torch.cat([embedded[:text_rows], reference_step.norm(embedded[text_rows:] + fed, None, EPS)])
    torch.testing.assert_close(norms.embed_rows(ids, weight, fed, text_rows, 8.5, EPS), want)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_rope_tables(share: float) -> None:
    """Far out, where an angle has few digits left."""
    frequencies = inverse_frequencies(LayerConfig("full_attention", 32, 1, 1_000_000.0, share))
    found = norms.rope_tables(torch.tensor([200_003]), -3, 7, frequencies, torch.float32)
    want = cos_sin(torch.arange(200_000, 200_007), frequencies, torch.float32)
    torch.testing.assert_close(found, want, atol=1e-6, rtol=0)


# --- settle --------------------------------------------------------------------------------------------------------


def settings_of(choose: random.Random, acceptance: str) -> GenerationConfig:
    return GenerationConfig(
        acceptance=acceptance,
        max_denoising_steps=choose.choice([1, 3, 8, 100]),
        entropy_bound=choose.choice([0.0, 0.25, 2.0]),
        accept_probability=choose.choice([0.5, 0.75, 1.0]),
        stability_threshold=choose.randrange(4),
        confidence_threshold=choose.choice([0.0, 0.5, 3.0]),
    )


@pytest.mark.parametrize(
    "seeds", [range(20), *(pytest.param(range(first, first + 100), marks=pytest.mark.slow) for first in (20, 120, 220))]
)
@pytest.mark.parametrize("acceptance", ACCEPTANCE)
def test_a_step_s_end_by_each_rule(acceptance: str, seeds: range) -> None:
    """Numbers whose sums are exact, many equal but for entropies; none to all places are kept, some of them pinned."""
    for seed in seeds:
        choose, draws = random.Random(seed), torch.Generator().manual_seed(seed)
        config, count = settings_of(choose, acceptance), choose.choice([1, 7, 32, 45])
        rule, step = rule_of(config), choose.randrange(config.max_denoising_steps)
        argmax, candidate, tokens, canvas = (torch.randint(99, (count,), generator=draws) for _ in range(4))
        entropy = torch.randperm(2 * count, generator=draws)[:count] / 64  # the order of equal ones is open
        highest = choose.choice([4, 9])  # of an eighth: none is sure, or some are
        probability = torch.randint(highest, (count,), generator=draws) / 8
        kept = torch.rand(count, generator=draws) < choose.choice([0.0, 0.4, 0.9, 1.0])
        pinned = torch.where(kept & (torch.rand(count, generator=draws) < 0.5), canvas, -1).int()
        previous = argmax.clone() if choose.random() < 0.6 else candidate.clone()
        found = VocabularyResult(
            argmax, candidate, entropy, probability, entropy, entropy, torch.tensor([seed % 2], dtype=torch.int32)
        )
        want = rule(found, canvas, kept)
        following = sampling.renoise(want.candidates, want.mask, tokens)
        left = Buffers(
            tokens=torch.zeros(4, count, dtype=torch.long),
            entropy=torch.zeros(count),
            flags=torch.full((2,), 7, dtype=torch.int32),
            canvas=canvas.clone(),
            kept=kept.clone(),
            previous=previous.clone(),
            unchanged=torch.tensor([1]),
            step=torch.tensor([step]),
            draw=torch.tensor([11, 30]),
        )
        settle(found, tokens, pinned, torch.tensor(knobs_of(config)[3:]), left)
        assert torch.equal(left.tokens, torch.stack([argmax, want.candidates, want.mask.long(), following])), seed
        assert torch.equal(left.canvas, following)
        assert torch.equal(left.entropy, entropy)
        assert torch.equal(left.previous, argmax)
        assert left.unchanged.item() == (2 if torch.equal(argmax, previous) else 0)
        assert torch.equal(left.kept, want.mask if rule.keeps else pinned >= 0)
        stable = (2 if torch.equal(argmax, previous) else 0) >= config.stability_threshold
        sure = bool(entropy.mean() < config.confidence_threshold)
        assert left.flags.tolist() == [int((stable and sure) or bool(want.is_finished)), seed % 2], seed
        assert (left.step.item(), left.draw.tolist()) == (step + 1, [11, 31])
