"""Measured influence against distributions written out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from engine import SafelightError, influence
from tests.engine import bidirectional as texts
from tests.engine.decoding.test_reuse import Counting
from tests.engine.taught import taught
from tests.engine.tiny import CANVAS, VOCABULARY, network, tokens

PROMPT, BEFORE, CANVAS_IDS = tokens(12, 3), [tokens(CANVAS, 5), tokens(CANVAS, 6)], tokens(CANVAS, 7)


@pytest.fixture
def model() -> Counting:
    return Counting(network(1))


def measure(model: Any, position: int, token: int, **options: Any) -> Any:
    return influence(model, PROMPT, BEFORE, CANVAS_IDS, position, token, **options)


@pytest.mark.parametrize(("position", "token", "temperature"), [(0, 3, 0.4), (9, 127, 2.5)])
def test_it_is_the_divergence_of_two_steps(model: Counting, position: int, token: int, temperature: float) -> None:
    found = measure(model, position, token, temperature=temperature)
    cache = model.inner.new_cache()
    for text in (PROMPT, *BEFORE):
        model.inner.prefill(text, cache)
    changed = CANVAS_IDS.clone()
    changed[position] = token
    p, q = (
        torch.softmax(model.inner.denoise(canvas, cache).double() / temperature, dim=-1)
        for canvas in (CANVAS_IDS, changed)
    )
    wanted = (p * (p / q).log()).sum(dim=-1).numpy()
    wanted[position] = 0.0
    np.testing.assert_allclose(found.kl, wanted, rtol=1e-5, atol=1e-9)
    assert found.kl.dtype == np.float32
    assert (found.kl[found.measured] > 0).all()
    assert np.flatnonzero(~found.measured).tolist() == [position]
    assert (found.position, found.token) == (position, token)


def test_the_cache_is_used_and_cut_back(model: Counting) -> None:
    cache = model.new_cache()
    first = measure(model, 2, 50, cache=cache)
    assert model.read == [12, CANVAS, CANVAS]
    model.read.clear()
    assert measure(model, 2, 50, cache=cache).kl.tolist() == first.kl.tolist()
    assert model.read == []
    earlier = influence(model, PROMPT, BEFORE[:1], BEFORE[1], 2, 50, cache)
    assert model.read == []
    assert cache.length == 12 + CANVAS
    assert earlier.kl.tolist() == influence(model, PROMPT, BEFORE[:1], BEFORE[1], 2, 50).kl.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": 10}, "position 10 is outside the canvas of 10 tokens"),
        ({"token": VOCABULARY}, "token id 128 is outside the vocabulary of 128"),
        ({"temperature": 0.0}, "the temperature must be above 0"),
        ({"committed": [tokens(0)]}, r"block 0 has the shape \(0,\)"),
        ({"canvas": []}, "the canvas is empty"),
        ({"prompt_ids": [1] * 4080}, "does not fit the model's 4096 positions"),
    ],
)
def test_bad_questions(model: Counting, changes: dict[str, Any], message: str) -> None:
    given = {"prompt_ids": PROMPT, "committed": BEFORE, "canvas": CANVAS_IDS, "position": 0, "token": 1, **changes}
    with pytest.raises(SafelightError, match=message) as error:
        influence(model, **given)
    assert "\n" not in str(error.value)


def test_non_finite_logits_are_an_error() -> None:
    poisoned = network(1)
    poisoned.norm.weight[0] = torch.nan  # type: ignore[index]
    with pytest.raises(SafelightError, match="non-finite logits in block 3"):
        measure(Counting(poisoned), 0, 1)


@pytest.mark.parametrize(("name", "shift"), [("llada", 0), ("dream", 1)])
def test_masks_depend_on_a_letter_of_their_alphabet(name: str, shift: int) -> None:
    """One of six letters is written; a letter of another alphabet in its place changes all that is predicted."""
    model, asked = taught(name), texts.question(random.Random(3))
    digits, masks = asked[-1 - texts.COUNT : -1], texts.LENGTH - len(asked) - texts.COUNT
    canvas = torch.full((texts.COUNT,), texts.MASK)
    canvas[1] = 10 + digits[1]
    found = influence(model, asked, [], canvas, 1, 20 + digits[1], masks=masks)
    assert found.measured.tolist() == [place != 1 for place in range(texts.COUNT)]
    changed = canvas.clone()
    changed[1] = 20 + digits[1]
    p, q = (
        model.decode(
            torch.cat((torch.tensor(asked), one, torch.full((masks,), texts.MASK))), model.new_cache(), 0,
            is_causal=False,
        )[len(asked) - shift :][: texts.COUNT].double().softmax(dim=-1)
        for one in (canvas, changed)
    )  # fmt: skip
    wanted = (p * (p / q).log()).sum(dim=-1).numpy()
    assert found.kl[found.measured] == pytest.approx(wanted[found.measured], abs=1e-5)
    assert found.kl[found.measured].min() > 0.1
    with pytest.raises(SafelightError, match="no other place is left"):
        influence(model, asked, [], torch.tensor([10 + digit for digit in digits]), 1, 20, masks=masks)
