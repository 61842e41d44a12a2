"""The sentences about this computer: what it is, what is so with its card, how fast a model may be. Knows no Qt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from app.state.models.invitation import sold_size
from app.state.models.recommendation import LEAST_TOKENS, Note
from app.state.models.speed import STEPS, seconds_a_block
from app.system.i18n import tr
from app.system.memory_use import size
from engine.memory.machine import GraphicsCard, Machine

if TYPE_CHECKING:
    from engine.memory.speed import ExpectedSpeed

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


def not_measured() -> str:
    """Says that nothing is known of the processor's speed."""
    return tr("Speed on this computer: not measured yet")


def processor_speed(speed: ExpectedSpeed) -> str:
    """Says how fast a model is expected to be on the processor."""
    one_by_one = speed.tokens_per_second
    if speed.step_seconds is None:
        return tr("About {count} tokens a second on this processor", count=_count(one_by_one or 0.0))
    step = {"time": _time(speed.step_seconds), "rows": speed.rows}
    if one_by_one is None:
        return tr("About {time} a step of {rows} tokens on this processor", **step)
    return tr(
        "About {time} a step of {rows} tokens on this processor; {count} tokens a second one by one",
        count=_count(one_by_one),
        **step,
    )


def _count(tokens: float) -> str:
    return f"{tokens:.1f}" if tokens < 10 else f"{tokens:.0f}"


def _time(seconds: float) -> str:
    if seconds < 0.1:
        return tr("{count} ms", count=f"{1000 * seconds:.1f}" if seconds < 0.01 else f"{1000 * seconds:.0f}")
    return tr("{count} s", count=f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}")


def measure_text(share: float, *, is_measuring: bool, is_stopping: bool) -> str:
    """Returns the text of the button that measures, and that stops a measurement."""
    if is_stopping:
        return tr("Stopping…")
    if is_measuring:
        return tr("Stop measuring ({share})", share=f"{share:.0%}")
    return tr("Measure this computer's speed")


def measure_tip() -> str:
    """Explains the button that measures."""
    return tr("Takes the time of the processor's products for half a minute; best while nothing else runs")
