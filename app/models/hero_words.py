"""The sentences about this computer: what it is, what is so with its card, how fast a model may be. Knows no Qt."""

from __future__ import annotations

import sys

from app.models.words import amount
from app.state.models.invitation import sold_size
from app.state.models.recommendation import LEAST_TOKENS, Note
from app.state.models.speed import STEPS, seconds_a_block
from app.system.i18n import tr
from engine.memory.machine import GraphicsCard, Machine

GET_CUDA = "uv pip install --reinstall torch --torch-backend auto"


def machine_line(machine: Machine) -> str:
    """Names the card and the memory of a computer."""
    memory = tr("{size} GB of memory", size=round(machine.memory_bytes / 2**30))
    card = machine.card
    if card is None:
        return tr("No graphics card found · {memory}", memory=memory)
    name = card.name or tr("{maker} graphics", maker=card.maker)
    size = tr("{size} GB", size=sold_size(card.total_bytes)) if card.total_bytes else ""
    return " · ".join(filter(None, (", ".join(filter(None, (name, size))), memory)))


def note_line(note: Note) -> str:
    """Says what is so with the card, and what to do about it."""
    other = tr("Safelight computes on NVIDIA cards only, so models run on the processor here.")
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
        "Apple": tr("Safelight does not compute on a Mac's graphics yet, so models run on the processor."),
        "small card": tr("DiffusionGemma 26B needs a card of 24 GB; this model fits yours."),
    }[note]


def too_slow_line(title: str) -> str:
    """Says why the model of this title, which is better and fits, is not recommended."""
    return tr(
        "{model} fits, but would write fewer than {least:.0f} tokens a second on this computer.",
        model=title,
        least=LEAST_TOKENS,
    )


def card_speed(card: GraphicsCard, *, is_predicted: bool) -> str:
    """Says how fast a model is on a card; ``is_predicted`` if there are predictions for this model."""
    found = seconds_a_block(card.name) if is_predicted else None
    if found is None:
        return tr("Speed on this card: not measured yet")
    few, many = STEPS
    return tr(
        "Predicted: {low:.1f} to {high:.1f} s for a block of 256 tokens, in {few} to {many} steps. Counted from what "
        "each step reads and computes; not measured on a card yet.",
        low=found[0],
        high=found[1],
        few=few,
        many=many,
    )


def processor_speed(tokens: float | None, rate: float, *, by_diffusion: bool) -> str:
    """Says how fast a model is on the processor.

    Args:
        tokens: expected tokens a second if they are written one by one; None if that is not known.
        rate: measured bytes of weights a second.
        by_diffusion: the model can write several tokens at once.
    """
    if tokens is None:
        return tr("Speed on this computer: not measured yet")
    count = f"{tokens:.1f}" if tokens < 10 else f"{tokens:.0f}"
    source = tr("Safelight Talk reads {size} of weights a second here", size=amount(round(rate)))
    if by_diffusion:
        return tr(
            "About {count} tokens a second one by one; by diffusion not known ({source})", count=count, source=source
        )
    return tr("About {count} tokens a second ({source})", count=count, source=source)


def measure_tip() -> str:
    """Explains the button that measures."""
    return tr("Lets Safelight Talk write a few words and takes the time; a few seconds")
