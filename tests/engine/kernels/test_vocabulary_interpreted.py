"""The vocabulary stage against plain torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.decoding import sampling
from engine.kernels import reference_step as plain
from engine.kernels import vocabulary as kernel
from engine.quant import INT8, pack

CAP = 30.0


def made(positions: int, hidden: int, vocabulary: int, dtype: torch.dtype, packed: bool) -> tuple[Tensor, Any]:
    generator = torch.Generator().manual_seed(positions * vocabulary)
    table = torch.randn(vocabulary, hidden, generator=generator) * 0.5
    states = torch.randn(positions, hidden, generator=generator).to(dtype)
    return states, pack(table, INT8) if packed else table.to(dtype)


def knobs(**more: Any) -> dict[str, Any]:
    draw = torch.tensor([(1 << 40) + 7, 3])
    return {"temperature": torch.tensor([0.7]), "draw": draw, "cap": CAP, "embed_scale": 8.0, **more}


@pytest.mark.parametrize(
    ("packed", "dtype"), [(True, torch.float32), (False, torch.float32), (True, torch.float16)], ids=str
)
@pytest.mark.parametrize(
    ("positions", "hidden", "vocabulary", "chunk_tiles", "splits"),
    [(17, 130, 520, 2, 2), (3, 70, 257, 1, 3), (140, 64, 128, None, 1), (5, 128, 300, 2, 1)],
)
def test_equals_the_oracle(
    positions: int, hidden: int, vocabulary: int, chunk_tiles: int | None, splits: int, packed: bool, dtype: torch.dtype
) -> None:
    states, table = made(positions, hidden, vocabulary, dtype, packed)
    forbidden = torch.arange(vocabulary) % 3 == 1
    pinned = torch.full((positions,), -1, dtype=torch.int32)
    pinned[1] = 7  # forbidden, too
    for settings in (knobs(), knobs(forbidden=forbidden, pinned=pinned)):
        mine = kernel.vocabulary_stage(states, table, **settings, chunk_tiles=chunk_tiles, splits=splits)
        assert_alike(mine, plain.vocabulary_stage(states, table, **settings))
        assert int(mine.nonfinite) == 0


def assert_alike(found: plain.VocabularyResult, want: plain.VocabularyResult) -> None:
    assert torch.equal(found.argmax, want.argmax)
    assert torch.equal(found.candidate, want.candidate)
    atol, rtol = (1e-4, 1e-5) if found.soft.dtype == torch.float32 else (0.02, 2e-3)
    torch.testing.assert_close(found.entropy, want.entropy, atol=2e-5, rtol=0)
    torch.testing.assert_close(found.logsumexp, want.logsumexp, atol=2e-5, rtol=0)
    torch.testing.assert_close(found.soft, want.soft, atol=atol, rtol=rtol)
    torch.testing.assert_close(found.probability, want.probability, atol=1e-6, rtol=1e-5)


def of_each(canvases: tuple[int, ...]) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
    """The temperature and draw of each of several canvases, and those of all their rows."""
    alone = [
        {"temperature": torch.tensor([0.5 + 0.2 * place]), "draw": torch.tensor([(1 << 40) - 3 * place, 5 - place])}
        for place in range(len(canvases))
    ]
    rows = [
        torch.cat([one["draw"].expand(count, 2), torch.arange(count)[:, None]], dim=1)
        for one, count in zip(alone, canvases, strict=True)
    ]
    temperatures = [one["temperature"].expand(count) for one, count in zip(alone, canvases, strict=True)]
    return alone, {"temperature": torch.cat(temperatures), "draw": torch.cat(rows)}


def test_rows_of_several_canvases_are_what_each_canvas_is() -> None:
    """In one tile and beyond it: a temperature, a seed and a step each, and the places of its own positions."""
    canvases = (9, 5, 6)
    states, table = made(sum(canvases), 64, 300, torch.float32, packed=True)
    alone, both = of_each(canvases)
    mine = kernel.vocabulary_stage(states, table, **knobs(**both), chunk_tiles=2)
    assert_alike(mine, plain.vocabulary_stage(states, table, **knobs(**both)))
    first = 0
    for one, count in zip(alone, canvases, strict=True):
        rows = slice(first, first + count)
        own = plain.vocabulary_stage(states[rows], table, **knobs(**one))
        assert torch.equal(own.candidate, mine.candidate[rows])
        torch.testing.assert_close(own.entropy, mine.entropy[rows], atol=1e-5, rtol=0)
        torch.testing.assert_close(own.logsumexp, mine.logsumexp[rows], atol=2e-5, rtol=0)
        first += count


def test_the_oracle_is_the_sampler_s_arithmetic() -> None:
    """Entropy, argmax and soft embedding as the plain path computes them from whole logits."""
    states, table = made(6, 32, 500, torch.float32, packed=False)
    logits = torch.tanh(states @ table.T / CAP) * CAP / 0.7
    found = plain.vocabulary_stage(states, table, **knobs())
    assert torch.equal(found.argmax, logits.argmax(-1))
    torch.testing.assert_close(found.entropy, sampling.token_entropy(logits))
    torch.testing.assert_close(found.soft, torch.softmax(logits, -1) @ table * 8.0)


@pytest.mark.filterwarnings("ignore:overflow encountered")  # up to tanh's limit
@pytest.mark.parametrize(("scale", "temperature"), [(40.0, 0.02), (1e-3, 0.4)])
def test_extremes_of_sharpness(scale: float, temperature: float) -> None:
    """Logits of +-1500 nats, beyond what any single exponent covers, and logits that hardly differ."""
    states, table = made(8, 64, 700, torch.float32, packed=False)
    settings = knobs(temperature=torch.tensor([temperature]))
    mine = kernel.vocabulary_stage(states * scale, table, **settings, chunk_tiles=2)
    want = plain.vocabulary_stage(states * scale, table, **settings)
    torch.testing.assert_close(mine.entropy, want.entropy, atol=1e-3 if scale > 1 else 1e-5, rtol=1e-4)
    assert bool(mine.soft.isfinite().all())
    assert int(mine.nonfinite) == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_says_when_logits_are_not_finite() -> None:
    states, table = made(5, 32, 200, torch.float32, packed=True)
    states[3, 4] = torch.nan
    found = kernel.vocabulary_stage(states, table, **knobs())
    assert int(found.nonfinite) == 1
    assert all(0 <= token < 200 for token in [*found.argmax.tolist(), *found.candidate.tolist()])
    assert int(plain.vocabulary_stage(states, table, **knobs()).nonfinite) == 1


def test_draws_follow_the_softmax() -> None:
    positions, vocabulary = 512, 130  # two tiles, the second of two tokens
    states = torch.ones(positions, 16)
    logits = torch.full((vocabulary,), -3.0)
    logits[[2, 50, 127, 128, 129]] = torch.tensor([1.0, 0.5, 0.0, 1.2, -0.5])
    table = torch.zeros(vocabulary, 16)
    table[:, 0] = logits
    table[9] = 100.0  # forbidden
    forbidden = torch.arange(vocabulary) == 9
    settings = knobs(temperature=torch.tensor([1.0]), cap=1e4, forbidden=forbidden)
    drawn = kernel.vocabulary_stage(states, table, **settings).candidate
    share = torch.bincount(drawn, minlength=vocabulary) / positions
    expected = torch.softmax(logits.masked_fill(forbidden, -torch.inf), dim=-1)
    deviation = (expected * (1 - expected) / positions).sqrt()
    assert float(share[9]) == 0
    assert bool(((share - expected).abs() <= 4 * deviation).all())
    settings["draw"] = settings["draw"] + torch.tensor([0, 1])
    later = kernel.vocabulary_stage(states[:64], table, **settings).candidate
    assert float((later == drawn[:64]).float().mean()) < 0.5


@triton.jit
def noise_kernel(bits_ptr, uniform_ptr, seed, c0_ptr, c1_ptr, c2_ptr, c3_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    counters = tl.load(c0_ptr + at), tl.load(c1_ptr + at), tl.load(c2_ptr + at), tl.load(c3_ptr + at)
    r0, r1, r2, r3 = tl.philox(seed, *counters)
    tl.store(bits_ptr + at, r0.to(tl.int64))
    tl.store(bits_ptr + N + at, r1.to(tl.int64))
    tl.store(bits_ptr + 2 * N + at, r2.to(tl.int64))
    tl.store(bits_ptr + 3 * N + at, r3.to(tl.int64))
    tl.store(uniform_ptr + at, tl.uint_to_uniform_float(r0))


def test_the_oracle_s_noise_is_triton_s() -> None:
    count, seed = 64, (0xDEADBEEF << 32) - 12345
    counters = [torch.randint(1 << 31, (count,), generator=torch.Generator().manual_seed(place)) for place in range(4)]
    bits, numbers = torch.empty(4, count, dtype=torch.int64), torch.empty(count)
    noise_kernel[(1,)](bits, numbers, seed, *(counter.to(torch.int32) for counter in counters), N=count)
    mine = plain.philox(seed, *counters)
    assert torch.equal(torch.stack(mine), bits)
    assert torch.equal(plain.uniform(mine[0]), numbers)
