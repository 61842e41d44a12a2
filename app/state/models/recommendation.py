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
    SKILLS,
    TALK,
    WEDLM_8B,
)
from engine.memory.machine import Machine

CONTEXT = 4096  # tokens that a recommended model must have room for
LEFT_ON_CARD = 1_500_000_000  # bytes of a card for the desktop and the browser
LEFT_IN_MEMORY, LEFT_SHARE = 3_000_000_000, 0.25
"""Bytes, and a share of the computer's memory, that a recommended model leaves free of what is free now."""
LEAST_CARD = 19_000_000_000  # bytes of a card on which the 4-bit 26B is recommended
LEAST_TOKENS = 3.0  # expected tokens a second of a model that is recommended; slower than that, nobody waits
PACKED = "int4"

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
4-bit activations, which are off until such a card has run them.
"""
PROCESSOR = CARD[1:]
"""The same without a card. Unrounded, the 26B would read three times as many bytes for each step."""
Note = Literal["", "no card", "no CUDA", "no driver", "AMD", "Intel", "Apple", "small card"]


@dataclass(frozen=True)
class Recommendation:
    """A model by the key of its entry, and what has to be said about the computer.

    ``too_slow`` is the key of a better model that fits, but would write fewer tokens a second than ``LEAST_TOKENS``.
    """

    key: str
    on_card: bool
    note: Note
    too_slow: str = ""


def recommend(
    machine: Machine,
    needs: Mapping[Choice, int],
    free: int,
    speeds: Mapping[Choice, float] | None = None,
    *,
    has_talk: bool = True,
) -> Recommendation:
    """Recommends the best model that fits now with memory to spare and is not too slow, else a small one that is here.

    Args:
        needs: bytes of memory by choice, with a context of ``CONTEXT`` tokens, on the card if it is usable.
        free: bytes that a model could take now, on the card if it is usable.
        speeds: expected tokens a second on the processor by choice; None where it was not measured.
        has_talk: Safelight Talk is installed.
    """
    if machine.is_usable and machine.card is not None:
        room, order, speeds = min(machine.card.total_bytes - LEFT_ON_CARD, free), CARD, None
    else:
        left = max(LEFT_IN_MEMORY, round(LEFT_SHARE * machine.memory_bytes))
        room, order = min(machine.memory_bytes, free) - left, PROCESSOR
    here = TALK.id if has_talk else SKILLS
    fitting = [choice for choice in order if choice in needs and needs[choice] <= room]
    quick = [choice for choice in fitting if speeds is None or speeds[choice] >= LEAST_TOKENS]
    too_slow = fitting[0][0] if fitting and fitting[:1] != quick[:1] else ""
    return Recommendation(quick[0][0] if quick else here, machine.is_usable, _note(machine), too_slow)


def _note(machine: Machine) -> Note:
    card = machine.card
    if card is None:
        return "no card"
    if card.maker != "NVIDIA":
        return card.maker
    if not machine.is_usable:
        return "no driver" if machine.has_cuda else "no CUDA"
    return "" if runs_the_26b(machine) else "small card"


def runs_the_26b(machine: Machine) -> bool:
    """Returns True if the computer has a card that holds DiffusionGemma 26B in 4 bits."""
    return machine.is_usable and machine.card is not None and machine.card.total_bytes >= LEAST_CARD
