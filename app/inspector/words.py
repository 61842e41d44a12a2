"""Frames and figures in words. Knows no widget."""

from __future__ import annotations

import math

from app.inspector.timeline.overview import BlockFigures
from app.state.run.canvas import BlockState
from app.state.run.replay import NOISE, Frame
from app.system.i18n import tr, trn

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def frame_words(frame: Frame, steps: int, snapshot: BlockState | None) -> str:
    """Which frame it is: block, step and temperature. ``steps`` are the block's."""
    block = frame.block + 1
    if frame.step == NOISE:
        return tr("Block {block}, noise before the first step", block=block)
    if snapshot is not None and snapshot.committed:
        if snapshot.reason == "converged":
            return tr("Block {block}, committed after step {steps}: sure enough to stop", block=block, steps=steps)
        return tr("Block {block}, committed after step {steps}: the most it may take", block=block, steps=steps)
    if snapshot is None or snapshot.temperature is None:
        return tr("Block {block}, step {step} of {steps}", block=block, step=frame.step, steps=steps)
    return tr(
        "Block {block}, step {step} of {steps}, temperature {temperature}",
        block=block,
        step=frame.step,
        steps=steps,
        temperature=f"{snapshot.temperature:.2f}",
    )


def facts(frame: Frame, steps: int, figures: BlockFigures | None) -> list[str]:
    """A frame's facts, a line each, as far as they are known without reading the run."""
    if frame.step == NOISE:
        return [tr("Block {block}, noise", block=frame.block + 1)]
    if frame.step >= steps:
        lines = [tr("Block {block}, committed", block=frame.block + 1), trn("{count} step", "{count} steps", steps)]
        if figures is not None:
            lines.append(
                tr("Stopped early: sure enough") if figures.stopped_early else tr("Stopped at the cap on steps")
            )
            lines.append(trn("{count} position of text", "{count} positions of text", figures.counted))
        return lines
    lines = [tr("Block {block}, step {step} of {steps}", block=frame.block + 1, step=frame.step, steps=steps)]
    if figures is None or frame.step >= figures.steps:
        return lines
    step = frame.step
    lines += [
        tr("Temperature {temperature}", temperature=f"{figures.temperature[step]:.2f}"),
        tr("Mean entropy {entropy} nats", entropy=f"{figures.mean_entropy[step]:.3f}"),
        tr("{accepted} of {count} accepted", accepted=int(figures.accepted[step]), count=figures.counted),
        trn("{count} remelt", "{count} remelts", int(figures.remelts[step])),
        trn("{count} change of the best guess", "{count} changes of the best guess", int(figures.changes[step])),
    ]
    return lines


def in_nats(value: float) -> str:
    """A figure with two or three digits that count, whatever its size; the unit is the caller's."""
    if value == 0 or value >= 0.001:
        return f"{value:.3f}" if value < 100 else f"{value:.0f}"
    power = math.floor(math.log10(value))
    return tr("{digits} × 10{power}", digits=f"{value / 10.0**power:.1f}", power=str(power).translate(_SUPERSCRIPT))


def power_of_ten(power: int) -> str:
    """10⁻³, and so on; 1 and 0.1 as they are."""
    return {0: "1", -1: "0.1", 1: "10"}.get(power, "10" + str(power).translate(_SUPERSCRIPT))


def tick(value: float) -> str:
    """A figure at a scale, in as few letters as can be."""
    if value == 0 or value >= 0.001:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    return f"{value / 10.0**power:.0f}·10{str(power).translate(_SUPERSCRIPT)}"
