"""Predicted speeds of cards."""

from __future__ import annotations

from app.models import hero_words


def test_only_cards_with_a_prediction_get_one() -> None:
    said = hero_words.card_speed("NVIDIA GeForce RTX 4090")  # 12 to 27 steps of 28 ms
    assert said.startswith("Predicted: 0.3 to 0.8 s for a block of 256 tokens")
    assert hero_words.card_speed("NVIDIA GeForce RTX 3090") == ""
