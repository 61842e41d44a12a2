"""Threads of the processor: by the work of a pass, as asked, and in force where a model computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from engine import MINI, SafelightError, catalog, load_model, threads
from engine.config import MAX_THREADS
from engine.files import read_json
from engine.models.registry import family_of
from engine.threads import LEAST_WORK, choose_threads, work_of
from tests.engine.tiny import CONFIG, network


@pytest.fixture(autouse=True)
def _four(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine on which torch takes four."""
    monkeypatch.setattr(threads, "available_threads", lambda: 4)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize("has_steps", [True, False])
def test_work_is_that_of_every_weight(has_steps: bool) -> None:
    """Each matrix multiplies each token of the canvas once; denoising steps multiply by the token table twice."""
    made = network()
    if not has_steps:
        raw = read_json(catalog.shape("wedlm-8b").folder / "config.json") | {"num_hidden_layers": 2}
        with torch.device("meta"):
            made = family_of(raw).build(family_of(raw).read_config(raw))
    sizes = {name: weight.numel() for name, weight in made.named_parameters() if weight.dim() > 1}
    table = sizes["embed_tokens.weight"]
    assert work_of(made.config) == made.config.canvas_length * (sum(sizes.values()) + (table if has_steps else -table))


def test_experts_that_are_not_chosen_are_no_work() -> None:
    many = dataclasses.replace(CONFIG, num_experts=64)
    more = dataclasses.replace(CONFIG, num_experts=128)
    routers = len(CONFIG.layers) * 64 * CONFIG.hidden_size * CONFIG.canvas_length
    assert work_of(more) - work_of(many) == routers


def test_a_large_model_takes_all_and_a_small_one_one() -> None:
    large = dataclasses.replace(CONFIG, hidden_size=2816, intermediate_size=2112, canvas_length=256)
    assert work_of(CONFIG) < LEAST_WORK <= work_of(large)
    assert [choose_threads(config) for config in (CONFIG, large)] == [1, 4]
    assert [choose_threads(config, 3) for config in (CONFIG, large)] == [3, 3]


def test_for_a_model_that_writes_token_by_token_the_work_of_a_token_counts() -> None:
    raw = read_json(catalog.shape("wedlm-8b").folder / "config.json")
    large, small = raw | {"num_hidden_layers": 2}, raw | {"num_hidden_layers": 1, "hidden_size": 256}
    assert [choose_threads(family_of(one).read_config(one)) for one in (large, small)] == [4, 1]


@pytest.mark.parametrize("asked", [-1, MAX_THREADS + 1])
def test_a_number_out_of_range(asked: int) -> None:
    with pytest.raises(SafelightError, match="the number of threads must be from 0"):
        load_model(MINI, threads=asked)


def test_a_pass_takes_the_models_own() -> None:
    """Whatever another model took before."""
    small, asked = load_model(MINI), load_model(MINI, threads=2)
    assert (small.threads, asked.threads) == (1, 2)
    for model in (asked, small, asked):
        cache = model.new_cache()
        model.prefill([5, 6, 7], cache)
        assert torch.get_num_threads() == model.threads
        torch.set_num_threads(3)
        model.denoise([5] * model.config.canvas_length, cache)
        assert torch.get_num_threads() == model.threads
