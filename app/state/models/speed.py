"""Predicted speeds of cards."""

from __future__ import annotations

STEP_MS = {"H100": 10.4, "H200": 9.5, "4090": 28.0, "5090": 20.0}
"""Milliseconds of a denoising step of the 26B in int4 at 1 000 tokens of context, by what a card's name contains.

Predicted, ± 25 %, by counting what each kernel reads and computes; no card has run it yet. The README has the parts.
"""
STEPS = (12, 27)
"""Denoising steps of a block: what Google calls typical, and the mean that others measured with the usual settings."""


def seconds_a_block(card_name: str) -> tuple[float, float] | None:
    """Returns the predicted seconds of a block of 256 tokens of the 4-bit 26B, from few steps to many; None if there is
    no prediction for the card."""
    step = next((ms for name, ms in STEP_MS.items() if name in card_name), None)
    return None if step is None else (STEPS[0] * step / 1000, STEPS[1] * step / 1000)
