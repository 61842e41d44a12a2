"""Predicted speeds of cards, and the sentences about speeds."""

from __future__ import annotations

import pytest

from app.models import hero_words
from app.state.models.speed import seconds_a_block
from engine.memory.machine import GraphicsCard
from engine.memory.speed import ExpectedSpeed


def test_only_cards_with_a_prediction_get_one() -> None:
    assert seconds_a_block("NVIDIA GeForce RTX 4090") == pytest.approx((0.336, 0.756))
    assert seconds_a_block("NVIDIA GeForce RTX 3090") is None
    card = GraphicsCard("NVIDIA", "NVIDIA GeForce RTX 4090", 24 * 2**30)
    assert hero_words.card_speed(card, is_predicted=True).startswith(
        "Predicted: 0.3 to 0.8 s for a block of 256 tokens"
    )
    assert hero_words.card_speed(card, is_predicted=False) == "Speed on this card: not measured yet"
    assert hero_words.card_speed(GraphicsCard("NVIDIA", "NVIDIA A100"), is_predicted=True).endswith("not measured yet")


@pytest.mark.parametrize(
    ("step", "tokens", "said"),
    [
        (None, 2.94, "About 2.9 tokens a second on this processor"),
        (None, 25.4, "About 25 tokens a second on this processor"),
        (5.96, 3.1, "About 6.0 s a step of 256 tokens on this processor; 3.1 tokens a second one by one"),
        (16.2, None, "About 16 s a step of 256 tokens on this processor"),
        (0.0123, None, "About 12 ms a step of 256 tokens on this processor"),
        (0.00823, None, "About 8.2 ms a step of 256 tokens on this processor"),
    ],
)
def test_a_processor_is_spoken_of_by_step_or_by_token(step: float | None, tokens: float | None, said: str) -> None:
    assert hero_words.processor_speed(ExpectedSpeed(1024, 2, 256, step, tokens, None)) == said


def test_the_button_says_how_far_a_measurement_is() -> None:
    def text(share: float, is_measuring: bool, is_stopping: bool) -> str:
        return hero_words.measure_text(share, is_measuring=is_measuring, is_stopping=is_stopping)

    assert text(0.0, False, False) == "Measure this computer's speed"
    assert text(0.425, True, False) == "Stop measuring (42%)"
    assert text(0.425, True, True) == "Stopping…"
