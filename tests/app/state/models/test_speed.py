"""Expected speeds are arithmetic on measured or published numbers, and nothing else."""

from __future__ import annotations

import pytest

from app.models import hero_words
from app.state.models.speed import bytes_a_token, seconds_a_block, tokens_a_second
from engine import PUBLISHED
from engine.catalog import shape
from engine.files import read_json
from engine.memory.machine import GraphicsCard
from engine.models.opening import plan_model


def test_a_token_reads_the_weights_once() -> None:
    parts = plan_model("qwen3-1.7b", quantization="none", device="cpu", dtype="bfloat16").parts
    size = bytes_a_token(parts)
    assert size == pytest.approx(2 * 1.72e9, rel=0.005)
    assert tokens_a_second(10e9, size) == pytest.approx(10 / 3.44, rel=0.005)
    whole = plan_model("26b-a4b", quantization="int4", device="cpu").parts
    assert bytes_a_token(whole, 8 / 128) == pytest.approx(bytes_a_token(whole) - 120 / 128 * whole["experts"])


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.repo)
def test_the_share_of_experts_is_that_of_the_shape(model: object) -> None:
    raw = read_json(shape(model.shape).folder / "config.json")  # type: ignore[attr-defined]
    raw = raw.get("text_config", raw)
    used, of = raw.get("top_k_experts") or raw.get("num_experts_per_tok"), raw.get("num_experts")
    share = used / of if of else 1.0
    if raw["model_type"] == "llada2_moe":  # a pass reads what 32 tokens use, for the four that it writes
        share = (1 - (1 - share) ** 32) / 4
    assert model.expert_share == pytest.approx(share, rel=0.01)  # type: ignore[attr-defined]


def test_only_cards_with_a_prediction_get_one() -> None:
    assert seconds_a_block("NVIDIA GeForce RTX 4090") == pytest.approx((0.336, 0.756))
    assert seconds_a_block("NVIDIA GeForce RTX 3090") is None
    card = GraphicsCard("NVIDIA", "NVIDIA GeForce RTX 4090", 24 * 2**30)
    assert hero_words.card_speed(card, is_predicted=True).startswith(
        "Predicted: 0.3 to 0.8 s for a block of 256 tokens"
    )
    assert hero_words.card_speed(card, is_predicted=False) == "Speed on this card: not measured yet"
    assert hero_words.card_speed(GraphicsCard("NVIDIA", "NVIDIA A100"), is_predicted=True).endswith("not measured yet")


def test_a_processor_is_measured_before_anything_is_said() -> None:
    assert hero_words.processor_speed(None, 0.0, by_diffusion=False) == "Speed on this computer: not measured yet"
    line = hero_words.processor_speed(2.91, 10e9, by_diffusion=False)
    assert line == "About 2.9 tokens a second (Safelight Talk reads 10.0 GB of weights a second here)"
