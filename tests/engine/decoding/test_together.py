"""Passes of several runs at once are what each is alone; the oracle is ``perform``, one after the other."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import SafelightError
from engine.adapters.targets import attach
from engine.decoding import together
from engine.decoding.generate import perform
from engine.decoding.protocols import Denoise, Pass, Prefill
from engine.decoding.together import dealt, perform_together
from engine.models.diffusion_gemma import joint
from engine.models.diffusion_gemma.joint import FEWEST_ROWS, Rows, joins, joint_pass
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.adapting import random_adapters
from tests.engine.tiny import CANVAS, WINDOW, network, tokens

WIDE = {"intermediate_size": 64}  # rows are a multiple of two vectors


def random_passes(made: DiffusionGemma, seed: int, least: int = FEWEST_ROWS) -> list[Prefill | Denoise]:
    """Texts and canvases of 2 to 5 runs, behind texts of their own within and beyond the window."""
    rng, noise = random.Random(seed), torch.Generator().manual_seed(seed)
    found: list[Prefill | Denoise] = []
    for place in range(rng.randint(2, 5)):
        cache, count = made.new_cache(), rng.randint(least, 30)
        if rng.random() < 0.8:
            made.prefill(tokens(rng.randint(1, 3 * WINDOW), seed + place), cache)
        ids = tokens(count, 100 * seed + place)
        if rng.random() < 0.4:
            found.append(Prefill(ids, cache))
        else:
            fed = 3 * torch.randn(count, made.config.vocab_size, generator=noise) if rng.random() < 0.7 else None
            found.append(Denoise(ids, cache, fed))
    return found


def outcomes(made: DiffusionGemma, passes: list[Prefill | Denoise]) -> list[Tensor]:
    """Logits of the canvases; of the texts what a canvas behind them comes to."""
    return [one.take() if isinstance(one, Denoise) else made.denoise(tokens(CANVAS), one.cache) for one in passes]


def alone(made: DiffusionGemma, passes: list[Prefill | Denoise]) -> list[Tensor]:
    for one in passes:
        perform(made, one)
    return outcomes(made, passes)


def joined(made: DiffusionGemma, passes: list[Prefill | Denoise]) -> list[Tensor]:
    """By one pass, whether or not that may be."""
    canvases = [one for one in passes if isinstance(one, Denoise)]
    found = joint_pass(
        made,
        [Rows(one.ids, one.cache) for one in passes if isinstance(one, Prefill)],
        [Rows(one.canvas, one.cache, one.self_conditioning_logits) for one in canvases],
    )
    for one, logits in zip(canvases, found, strict=True):
        one.logits = logits
    return outcomes(made, passes)


@pytest.mark.parametrize("seed", range(8))
@torch.inference_mode()
def test_joined_rows_come_out_bit_for_bit(seed: int) -> None:
    made = network(seed, **WIDE)
    assert joins(made)
    for number in (seed, seed + 50):
        wanted, found = alone(made, random_passes(made, number)), joined(made, random_passes(made, number))
        assert all(torch.equal(one, other) for one, other in zip(wanted, found, strict=True))


@pytest.mark.parametrize("changes", [{}, {"num_experts": 12}, {"adapter": True}], ids=["narrow", "sorted", "adapter"])
@torch.inference_mode()
def test_what_would_round_otherwise_is_right_and_not_joined(changes: dict[str, Any]) -> None:
    has_adapter = changes.pop("adapter", False)
    made = network(3, **(WIDE if has_adapter else {}), **changes)
    if has_adapter:
        attach(made, random_adapters(made))
    assert not joins(made)
    wanted, found = alone(made, random_passes(made, 5)), joined(made, random_passes(made, 5))
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    passes = random_passes(made, 5, least=1)
    perform_together(made, passes)
    expected = alone(made, random_passes(made, 5, least=1))
    assert all(torch.equal(one, other) for one, other in zip(expected, outcomes(made, passes), strict=True))


@pytest.mark.parametrize("hands", [1, 2, 3])
@torch.inference_mode()
def test_passes_that_are_dealt_to_threads_come_out_bit_for_bit(hands: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_hands", lambda _model: hands)
    made, done, names = network(1, **WIDE), list[Pass](), set[int]()
    run = joint.joint_pass

    def watched(*arguments: Any) -> list[Tensor]:
        names.add(threading.get_ident())
        return run(*arguments)

    monkeypatch.setattr(together, "joint_pass", watched)
    passes = [*random_passes(made, 7), *random_passes(made, 8), Prefill(tokens(1), made.new_cache())]
    perform_together(made, passes, done.append)
    expected = alone(made, [*random_passes(made, 7), *random_passes(made, 8), Prefill(tokens(1), made.new_cache())])
    assert all(torch.equal(one, other) for one, other in zip(expected, outcomes(made, passes), strict=True))
    assert {id(one) for one in done} == {id(one) for one in passes}
    assert len(names) == hands


@torch.inference_mode()
def test_a_pass_that_fails_leaves_the_others_as_they_were_or_done(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(2, **WIDE)
    for hands in (1, 2):
        monkeypatch.setattr(together, "_hands", lambda _model, hands=hands: hands)
        passes, done = [*random_passes(made, 11), Denoise(tokens(5) + 1000, made.new_cache(), None)], list[Pass]()
        lengths = [one.cache.length for one in passes]
        with pytest.raises(SafelightError, match="outside the vocabulary"):
            perform_together(made, passes, done.append)
        undone = [one for one in passes if not any(one is other for other in done)]
        for one, length in zip(passes, lengths, strict=True):
            assert one.cache.length == length + (one in done and isinstance(one, Prefill)) * _count(one)
        for one in undone[:-1]:
            perform(made, one)
        expected = alone(made, random_passes(made, 11))
        assert all(torch.equal(one, other) for one, other in zip(expected, outcomes(made, passes[:-1]), strict=True))


def test_shares_have_about_the_same_numbers_of_rows() -> None:
    made = network()
    passes = [Denoise(tokens(count), made.new_cache(), None) for count in (10, 3, 7, 10, 1)]
    assert [[_count(one) for one in share] for share in dealt(passes, 2)] == [[10, 7], [10, 3, 1]]
    assert len(dealt(passes[:2], 4)) == 2


def test_a_processor_that_rounds_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(4, **WIDE)

    def rounded(*arguments: Any) -> list[Tensor]:
        return [logits + 1e-7 * logits for logits in run(*arguments)]

    run = joint.joint_pass
    monkeypatch.setattr(joint, "joint_pass", rounded)
    assert not joins(made)
    monkeypatch.undo()
    assert not joins(made)  # tried once
    assert joins(network(4, **WIDE))


def _count(one: Prefill | Denoise) -> int:
    return len(one.ids if isinstance(one, Prefill) else one.canvas)
