"""Plans of dense models against arithmetic on their configs."""

from __future__ import annotations

import pytest
import torch

from engine import catalog
from engine.files import read_json
from engine.kernels import cpu_int4
from engine.memory import footprint
from engine.memory.plan import CONTEXT
from engine.models.folder import ModelFolder
from engine.models.opening import plan_model
from engine.models.registry import family_of
from engine.quant import DEFAULT, PRECISIONS, Precision

SHAPES = {"wedlm-8b": 8.19e9, "nemotron-3b": 3.83e9}  # parameters, as they are published


@pytest.mark.parametrize("shape", SHAPES)
def test_an_independent_count_agrees_within_two_percent(shape: str) -> None:
    """4 bits and a bf16 scale for 32 weights in the layers, 8 bits for table and head; norms are left out.

    The int4 kernel of a processor that has one reads a zero point with each scale.
    """
    raw = read_json(catalog.shape(shape).folder / "config.json")
    hidden, inner, layers = raw["hidden_size"], raw["intermediate_size"], raw["num_hidden_layers"]
    heads, keys = raw["num_attention_heads"] * raw["head_dim"], raw["num_key_value_heads"] * raw["head_dim"]
    attention = layers * hidden * (2 * heads + 2 * keys)
    dense = layers * 3 * hidden * inner
    ends = 2 * raw["vocab_size"] * hidden
    assert attention + dense + ends == pytest.approx(SHAPES[shape], rel=0.005)

    four_bits = 4 / 8 + (4 if cpu_int4.block() else 2) / 32
    found = plan_model(shape, quantization=DEFAULT, device="cpu")
    assert found.precision == PRECISIONS[DEFAULT].for_dense()
    expected = {
        "experts": 0,
        "attention": attention * four_bits,
        "dense": dense * four_bits,
        "embedding": ends * 1,
        "kv_cache": layers * 2 * keys * 2 * (CONTEXT + 32),
    }
    for part, count in expected.items():
        assert found.parts[part] == pytest.approx(count, rel=0.02), part
    stated = sum(found.parts[part] for part in ("activations", "workspace", "process", "reserve"))
    assert found.total_bytes == pytest.approx(sum(expected.values()) + stated, rel=0.02)
    assert stated < 1.2e9
    family, config = family_of(raw), ModelFolder.open(catalog.shape(shape).folder).config
    weights = sum(footprint.weights(family.build, config, Precision(), torch.float32).values())
    assert weights == pytest.approx(4 * SHAPES[shape], rel=0.005)
