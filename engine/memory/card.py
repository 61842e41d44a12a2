"""Graphics cards that this machine lacks, known by their memory, to plan for. Knows no model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import SafelightError, quoted

GIB = 2**30
CARDS = {
    "rtx-3090": round(23.68 * GIB),
    "rtx-4090": round(23.64 * GIB),
    "rtx-5090": round(31.36 * GIB),
    "a100": round(79.25 * GIB),
    "h100": round(79.11 * GIB),
    "h200": round(139.81 * GIB),
}
"""Total bytes of each card as CUDA reports them."""
_SIZE = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) ?GB", re.I)


@dataclass(frozen=True)
class AbsentCard:
    """A card by its name, or by its size if the name is unknown, and its bytes for CUDA."""

    name: str
    total_bytes: int


def card_of(text: str) -> AbsentCard:
    """Reads a card's name among ``CARDS``, or its memory in decimal gigabytes, such as "24GB".

    Raises:
        SafelightError: it is neither.
    """
    name = text.strip().lower()
    if name in CARDS:
        return AbsentCard(name, CARDS[name])
    size = _SIZE.fullmatch(name)
    if size is None or not 0.1 <= float(size[1]) <= 9999:
        raise SafelightError(f"{quoted(text)} is not a known card; give {', '.join(CARDS)}, or a size such as 24GB")
    return AbsentCard(f"a card of {float(size[1]):g} GB", round(float(size[1]) * 1e9))
