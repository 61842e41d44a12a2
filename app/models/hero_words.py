"""The sentences about this computer: what it is, and what is so with its card. Knows no Qt."""

from __future__ import annotations

import sys

from app.state.models.recommendation import Note, sold_size
from app.system.i18n import tr
from app.system.memory_use import size
from engine.memory.machine import Machine

GET_CUDA = "uv pip install --reinstall torch --torch-backend auto"


def machine_line(machine: Machine) -> str:
    """Names the card and the memory of a computer."""
    memory = tr("{size} of memory", size=size(machine.memory_bytes))
    card = machine.card
    if card is None:
        return tr("No graphics card found · {memory}", memory=memory)
    name = card.name or tr("{maker} graphics", maker=card.maker)
    sold = tr("{size} GB", size=sold_size(card.total_bytes)) if card.total_bytes else ""
    return " · ".join(filter(None, (", ".join(filter(None, (name, sold))), memory)))


def note_line(note: Note) -> str:
    """Says what is so with the card, and what to do about it."""
    other = tr(
        "Safelight is made for NVIDIA cards. Others are experimental: one that PyTorch supports is checked when a "
        "model is loaded, else the processor computes."
    )
    if getattr(sys, "frozen", False):
        get = tr("This copy of Safelight was built without CUDA; install the one with CUDA.")
    else:
        get = tr("Close Safelight, run “{command}”, and start it again.", command=GET_CUDA)
    return {
        "": "",
        "no card": tr("Models run on the processor here. DiffusionGemma 26B is meant for an NVIDIA card of 24 GB."),
        "no CUDA": tr("This NVIDIA card is not used yet: PyTorch is installed without CUDA. {get}", get=get),
        "no driver": tr(
            "PyTorch cannot use this NVIDIA card: its driver is missing or too old. Update it and restart Safelight."
        ),
        "AMD": tr("{other} An AMD card can be used through a server: see “Remote engines” below.", other=other),
        "Intel": other,
        "Apple": tr(
            "A Mac's graphics are experimental: they are checked when a model is loaded, and if they are wrong, the "
            "processor computes."
        ),
        "small card": tr("DiffusionGemma 26B needs a card of 24 GB; this model fits yours."),
    }[note]
