"""Passes of several runs at once are what each is alone; the oracle is ``perform``, one after the other."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import SafelightError
from engine.adapters.lora import attach
from engine.decoding.performing import perform, perform_together
from engine.decoding.protocols import Denoise, Pass, Prefill
from engine.layers.kv_cache import SLACK
from engine.models.diffusion_gemma import joining
from engine.models.diffusion_gemma.joining import FEWEST_ROWS, Joining, Rows, joint_pass
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.threads import RETRY, Pace
from tests.engine.adapting import random_adapters
from tests.engine.tiny import CANVAS, FULL, SLIDING, WINDOW, network, tokens

WIDE = {"intermediate_size": 64}  # rows are a multiple of two vectors
WIDER = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "canvas_length": 16,
    "layers": tuple(dataclasses.replace(layer, head_dim=32, num_key_value_heads=2) for layer in (SLIDING, FULL)),
}


def random_passes(made: DiffusionGemma, seed: int, least: int = FEWEST_ROWS) -> list[Prefill | Denoise]:
    """Texts and canvases of 2 to 4 runs, behind texts of their own within and beyond the window."""
    rng, noise = random.Random(seed), torch.Generator().manual_seed(seed)
    found: list[Prefill | Denoise] = []
    for place in range(rng.randint(2, 4)):
        cache, count = made.new_cache(), rng.randint(least, 30)
        if rng.random() < 0.8:
            made.prefill(tokens(rng.randint(1, 3 * WINDOW), seed + place), cache)
        ids = tokens(count, 100 * seed + place)
        if rng.random() < 0.4:
            found.append(Prefill(ids, cache))
        else:
            fed = 3 * torch.randn(count, made.config.vocab_size, generator=noise) if rng.random() < 0.7 else None
            text = tokens(rng.randint(least, 40), 10 * seed + place) if rng.random() < 0.4 else None
            found.append(Denoise(ids, cache, fed, text))
    return found


def outcomes(made: DiffusionGemma, passes: list[Prefill | Denoise]) -> list[Tensor]:
    """Logits of the canvases; of the texts, also those before a canvas, what a canvas behind them comes to."""
    found = [one.take() for one in passes if isinstance(one, Denoise)]
    return [*found, *(made.denoise(tokens(CANVAS), one.cache) for one in passes)]


def alone(made: DiffusionGemma, passes: list[Prefill | Denoise]) -> list[Tensor]:
    for one in passes:
        perform(made, one)
    return outcomes(made, passes)


def joined(made: DiffusionGemma, passes: list[Prefill | Denoise]) -> list[Tensor]:
    """Performs them by one pass, allowed or not."""
    canvases = [one for one in passes if isinstance(one, Denoise)]
    found = joint_pass(
        made,
        [Rows(one.ids, one.cache) for one in passes if isinstance(one, Prefill)],
        [Rows(one.canvas, one.cache, one.self_conditioning_logits, one.text) for one in canvases],
    )
    for one, logits in zip(canvases, found, strict=True):
        one.logits = logits
    return outcomes(made, passes)


@pytest.mark.parametrize("seed", range(2))
@torch.inference_mode()
def test_joined_rows_come_out_bit_for_bit(seed: int) -> None:
    made = network(seed, **WIDE)
    assert Joining.for_network(made).allows(made)
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
    assert not Joining.for_network(made).allows(made)
    wanted, found = alone(made, random_passes(made, 5)), joined(made, random_passes(made, 5))
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(wanted, found, strict=True))
    passes = random_passes(made, 5, least=1)
    perform_together(made, passes)
    expected = alone(made, random_passes(made, 5, least=1))
    assert all(torch.equal(one, other) for one, other in zip(expected, outcomes(made, passes), strict=True))


@pytest.mark.parametrize(("changes", "cores"), [(WIDER, 2), (WIDE, 1)], ids=["two cores", "a canvas too short for two"])
@torch.inference_mode()
def test_passes_of_any_size_are_performed_together(
    changes: dict[str, Any], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passes that may be joined are, on as many threads as may be; one row goes alone."""
    made, done, seen = network(1, **changes), list[Pass](), list[tuple[int, int]]()

    def watched(*arguments: Any) -> list[Tensor]:
        seen.append((torch.get_num_threads(), sum(map(len, arguments[1:]))))
        return joint_pass(*arguments)

    monkeypatch.setattr(joining, "joint_pass", watched)
    Joining.for_network(made, threads=3)  # two: halves of the rows are whole vectors
    for turn in (cores, 1):
        passes = [*random_passes(made, 7), Prefill(tokens(1), made.new_cache())]
        perform_together(made, passes, done.append)
        expected = alone(made, [*random_passes(made, 7), Prefill(tokens(1), made.new_cache())])
        assert all(torch.equal(one, other) for one, other in zip(expected, outcomes(made, passes), strict=True))
        assert {id(one) for one in done[-len(passes) :]} == {id(one) for one in passes}
        assert seen[-1] == (turn, sum(_count(one) >= Joining.for_network(made).fewest_rows for one in passes))
    assert seen[0][0] == cores  # the trial
    assert torch.get_num_threads() == 1


@torch.inference_mode()
def test_a_pass_that_fails_leaves_the_others_as_they_were() -> None:
    made = network(2, **WIDE)
    passes, done = [*random_passes(made, 11), Denoise(tokens(5) + 1000, made.new_cache(), None)], list[Pass]()
    lengths = [one.cache.length for one in passes]
    with pytest.raises(SafelightError, match="outside the vocabulary"):
        perform_together(made, passes, done.append)
    assert (done, [one.cache.length for one in passes]) == ([], lengths)
    perform_together(made, passes[:-1])
    expected = alone(made, random_passes(made, 11))
    assert all(torch.equal(one, other) for one, other in zip(expected, outcomes(made, passes[:-1]), strict=True))


@torch.inference_mode()
def test_a_text_goes_with_its_canvas_wherever_the_window_ends() -> None:
    """Also where buffers are full and drop what slid out of reach, and where the pass fails."""
    made = network(6, **WIDE)
    for length in (3, WINDOW, SLACK + WINDOW - 3, 2 * SLACK):
        alone, together = made.new_cache(), made.new_cache()
        for cache in (alone, together):
            for piece in tokens(length, 1).split(64):
                made.prefill(piece, cache)
        text, canvas = tokens(37, 2), tokens(CANVAS, 3)
        made.prefill(text, alone)
        wanted = Denoise(canvas, together, None, text)
        perform_together(made, [wanted])
        assert torch.equal(wanted.take(), made.denoise(canvas, alone))
        assert together.length == length + 37
        assert torch.equal(made.denoise(canvas, together), made.denoise(canvas, alone))
        for strange in (Denoise(canvas + 1000, together, None, text), Denoise(canvas, together, None, text + 1000)):
            for performing in (lambda one: perform_together(made, [one]), lambda one: perform(made, one)):
                with pytest.raises(SafelightError, match="outside the vocabulary"):
                    performing(strange)
                assert together.length == length + 37


def test_a_processor_that_rounds_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(4, **WIDE)

    def rounded(*arguments: Any) -> list[Tensor]:
        return [logits + 1e-7 * logits for logits in joint_pass(*arguments)]

    monkeypatch.setattr(joining, "joint_pass", rounded)
    assert not Joining.for_network(made).allows(made)
    monkeypatch.undo()
    assert not Joining.for_network(made).allows(made)  # tried once
    other = network(4, **WIDE)
    assert Joining.for_network(other).allows(other)


def test_threads_are_taken_where_they_are_faster() -> None:
    pace, quiet, busy = Pace(), {1: 4.0, 2: 3.0}, {1: 4.0, 2: 30.0}

    def taken(passes: int, seconds: dict[int, float]) -> list[int]:
        return [_taken(pace, 2, seconds) for _ in range(passes)]

    assert taken(5, quiet) == [2, 1, 2, 2, 2]
    assert 0 < taken(4 * RETRY, quiet).count(1) <= 3
    assert taken(8, busy)[-4:] == [1] * 4  # another program took one
    waits = taken(8 * RETRY, busy)
    assert 2 <= waits.count(2) <= 4  # tried again, ever more rarely, and once is enough
    assert taken(32 * RETRY, quiet)[-2] == 2
    assert [_taken(pace, 2, {1: 4.0, 2: 3.0 * slow}) for slow in (1, 30, 1, 1)] == [2] * 4  # one slow pass
    assert {_taken(Pace(), 1, {1: 1.0}) for _ in range(3)} == {1}


def _count(one: Prefill | Denoise) -> int:
    return len(one.ids if isinstance(one, Prefill) else one.canvas)


def _taken(pace: Pace, most: int, seconds: dict[int, float]) -> int:
    count = pace.choose(1, most)
    pace.record(1, count, seconds[count])
    return count
