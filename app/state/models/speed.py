"""Expected speeds: on a processor from a measurement of this computer, on a card from published predictions."""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS = ("attention", "dense", "embedding", "other")  # parts of a memory plan that each token reads
STEP_MS = {"H100": 10.4, "H200": 9.5, "4090": 28.0, "5090": 20.0}
"""Milliseconds of a denoising step of the 26B in int4 at 1 000 tokens of context, by what a card's name contains.

Predicted, ± 25 %, by counting what each kernel reads and computes; no card has run it yet. The README has the parts.
"""
STEPS = (12, 27)
"""Denoising steps of a block: what Google calls typical, and the mean that others measured with the usual settings."""


def bytes_a_token(parts: Mapping[str, int], expert_share: float = 1.0) -> float:
    """Returns the bytes of weights that are read for a token which is written alone.

    Args:
        parts: bytes of a memory plan.
        expert_share: experts that a token uses, of all; 1 without experts.
    """
    return sum(parts[part] for part in WEIGHTS) + expert_share * parts["experts"]


def tokens_a_second(rate: float, token_bytes: float) -> float:
    """Returns the expected tokens a second, of a model that writes word by word.

    A token's time is that of reading the weights once, so tokens a second ≈ measured weight bytes a second ÷ the
    model's bytes a token. The rate is that of a small model, which spends a part of its time elsewhere: larger ones
    tend to be faster than this.

    Args:
        rate: bytes of weights a second, measured on this computer.
        token_bytes: as ``bytes_a_token`` returns it.
    """
    return rate / token_bytes


def seconds_a_block(card_name: str) -> tuple[float, float] | None:
    """Returns the predicted seconds of a block of 256 tokens of the 4-bit 26B, from few steps to many; None if there is
    no prediction for the card."""
    step = next((ms for name, ms in STEP_MS.items() if name in card_name), None)
    return None if step is None else (STEPS[0] * step / 1000, STEPS[1] * step / 1000)
