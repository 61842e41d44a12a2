"""The bench of a shape: what it measures adds up, and a wrong kernel does not pass. Not how fast anything is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine import SafelightError, kernels
from engine.device import Placement, choose
from engine.layers.packed import PackedLinear, packed_weights
from engine.shape_bench import check_layers, measure_shape, random_network
from engine.training.export import config_dict
from engine.weights.quantize import PRECISIONS, unpack
from tests.engine.packing import packable

CONFIG = packable().config
PRECISION = PRECISIONS["int4"]


@pytest.fixture(scope="module")
def placement() -> Placement:
    return choose("cpu", "float32")


def test_a_result_adds_up(placement: Placement) -> None:
    result = measure_shape("tiny", CONFIG, PRECISION, placement, context=30, steps=3, rounds=2)
    assert set(result.parts_ms) == {"experts", "attention", "dense", "vocabulary", "sampler", "gaps"}
    assert sum(result.parts_ms.values()) == pytest.approx(result.step_ms_median)
    assert all(ms > 0 for part, ms in result.parts_ms.items() if part != "gaps")
    assert 0 < result.step_ms_median <= result.step_ms_p95 or result.step_ms_p95 > 0
    assert result.commit_and_step_ms_median > 0
    assert result.plain_reason == "the kernels need an NVIDIA GPU"
    assert not result.graph
    assert set(result.oracle_error) == {"experts", "linear"}
    packed = sum(t.nbytes for w in packed_weights(random_network(CONFIG, PRECISION, placement)) for t in w.buffers())
    assert packed < result.weight_bytes < 1.5 * packed
    assert result.floor_share == pytest.approx(result.read_gb_s / result.bandwidth_gb_s)
    assert json.loads(json.dumps(result.as_dict()))["precision"] == PRECISION.as_dict()


def test_random_weights_keep_activations_in_bounds(placement: Placement) -> None:
    made = random_network(CONFIG, PRECISION, placement)
    assert all(bool(p.isfinite().all()) for p in made.parameters())
    for weight in packed_weights(made):
        assert unpack(weight.packed).std().item() == pytest.approx(weight.shape[-1] ** -0.5, rel=0.2)


def test_the_same_seed_makes_the_same_network(placement: Placement) -> None:
    one, other = (random_network(CONFIG, PRECISION, placement, seed=3).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_wrong_kernel_is_found(placement: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_network(CONFIG, PRECISION, placement)
    assert check_layers(made)["linear"] < 1e-6
    assert isinstance(made.layers[0].self_attn.q_proj, PackedLinear)
    right = kernels.linear

    def wrong(x: Tensor, weight: kernels.Packed) -> Tensor:
        return right(x, weight) * 1.05

    monkeypatch.setattr(kernels, "linear", wrong)
    with pytest.raises(SafelightError, match=r"the linear kernel is wrong on this device: off by 5\.0%"):
        check_layers(made)


def test_the_context_must_fit(placement: Placement) -> None:
    small = dataclasses.replace(CONFIG, max_position_embeddings=64)
    with pytest.raises(SafelightError, match="between 0 and 54 tokens for this shape, not 55"):
        measure_shape("tiny", small, PRECISION, placement, context=55)


def test_transformers_takes_the_same_shape(placement: Placement, tmp_path: Path) -> None:
    from engine.compare import transformers_step_ms

    (tmp_path / "config.json").write_text(json.dumps(config_dict(CONFIG)))
    found = transformers_step_ms(tmp_path, placement, context=12)
    assert found["by"].startswith("transformers 5.")
    assert found["dtype"] == "float32"
    assert isinstance(found["step_ms"], float)
