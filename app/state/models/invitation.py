"""The start page's entry to the models, and the size of a card in words."""

from __future__ import annotations

from app.state.models.recommendation import runs_the_26b
from app.system.i18n import tr
from engine.memory.machine import Machine

SIZES = (4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 80, 96, 141)  # gibibytes that cards are sold with
SHORT_OF = 0.06  # share of a card's memory that its driver may keep


def sold_size(total_bytes: int) -> int:
    """Returns the gigabytes that a card is sold with, by the bytes that its driver reports."""
    whole = total_bytes / 2**30
    return next((size for size in SIZES if size * (1 - SHORT_OF) <= whole <= size), round(whole))


def invitation(machine: Machine | None = None) -> str:
    """Returns the text of the entry; None: the computer was not looked at yet."""
    if machine is not None and machine.card is not None and runs_the_26b(machine):
        return tr("Get DiffusionGemma 26B for your {size} GB card", size=sold_size(machine.card.total_bytes))
    return tr("Models for this machine")
