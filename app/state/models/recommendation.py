"""Chooses the model that suits a computer best, by the computer's description and the memory that models need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.catalog import (
    DLLM_0_6B,
    FAST_DLLM_1_5B,
    FAST_DLLM_7B,
    GEMMA_4_BIT,
    GEMMA_ORIGINAL,
    LLADA2_MINI,
    QWEN_0_6B,
    QWEN_1_7B,
    SMALL,
    WEDLM_8B,
)
from engine.memory.machine import Machine

CONTEXT = 4096  # tokens that a recommended model must have room for
LEFT_ON_CARD = 1_500_000_000  # bytes of a card for the desktop and the browser
LEFT_IN_MEMORY, LEFT_SHARE = 3_000_000_000, 0.25
"""Bytes, and a share of the computer's memory, that a recommended model leaves free of what is free now."""
LEAST_CARD = 19_000_000_000  # bytes of a card on which the 4-bit 26B is recommended
PACKED = "int4"
SIZES = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 80, 96, 141)  # gibibytes that cards are sold with
SHORT_OF = 0.06  # share of a card's memory that its driver may keep

Choice = tuple[str, str]
"""A repository of the catalog, and the quantization that it is loaded in."""
CARD: tuple[Choice, ...] = (
    (GEMMA_ORIGINAL, "none"),
    (GEMMA_4_BIT, PACKED),
    (LLADA2_MINI, PACKED),
    (WEDLM_8B, PACKED),
    (FAST_DLLM_7B, PACKED),
    (FAST_DLLM_1_5B, PACKED),
    (DLLM_0_6B, PACKED),
    (QWEN_1_7B, PACKED),
    (QWEN_0_6B, PACKED),
)
"""What is recommended for a card, the best first, and those that write by diffusion before others: unrounded where 80
GB hold it, else in 4 bits.

NVIDIA's 4-bit format is not among them, on Blackwell cards neither: here it takes more instructions a weight than int4,
its error is larger (.095 against .086 on Gaussian weights), and so is its download. It would be faster there only with
4-bit activations, which are not supported.
"""
PROCESSOR = CARD[1:]
"""The same without a card. Unrounded, the 26B would read three times as many bytes for each step."""
Note = Literal["", "no card", "no CUDA", "no driver", "AMD", "Intel", "Apple", "small card"]


@dataclass(frozen=True)
class Recommendation:
    """A model by the key of its entry, and what has to be said about the computer."""

    key: str
    on_card: bool
    note: Note


def recommend(machine: Machine, needs: Mapping[Choice, int], free: int) -> Recommendation:
    """Recommends the best model that fits now with memory to spare, else the small ones, which are here.

    Args:
        needs: bytes of memory by choice, with a context of ``CONTEXT`` tokens, on the card if it is usable.
        free: bytes that a model could take now, on the card if it is usable.
    """
    if machine.is_usable and machine.card is not None:
        room, order = min(machine.card.total_bytes - LEFT_ON_CARD, free), CARD
    else:
        left = max(LEFT_IN_MEMORY, round(LEFT_SHARE * machine.memory_bytes))
        room, order = min(machine.memory_bytes, free) - left, PROCESSOR
    fitting = (repo for repo, how in order if needs.get((repo, how), room + 1) <= room)
    return Recommendation(next(fitting, SMALL), machine.is_usable, _note(machine))


def _note(machine: Machine) -> Note:
    card = machine.card
    if card is None:
        return "no card"
    if card.maker != "NVIDIA":
        return card.maker
    if not machine.is_usable:
        return "no driver" if machine.has_cuda else "no CUDA"
    return "" if card.total_bytes >= LEAST_CARD else "small card"


def sold_size(total_bytes: int) -> int:
    """Returns the gigabytes that a card is sold with, by the bytes that its driver reports."""
    whole = total_bytes / 2**30
    return next((size for size in SIZES if size * (1 - SHORT_OF) <= whole <= size), round(whole))
