"""Draws a run's log as a picture: losses above, results on held-out puzzles below. Reads the log, knows no model."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from engine.files import replacing

WIDTH, HEIGHT, PANEL, LEFT, RIGHT, TOP = 960, 640, 236, 72, 24, 40  # pixels; PANEL is a panel's height
BELOW = 72  # between panels: the ticks of one and the title of the next
PAPER, INK, FAINT = "#ffffff", "#202020", "#d8d8d8"
COLOURS = ("#1f5fa8", "#b4541a", "#2f7d4f")


@dataclass(frozen=True)
class Curve:
    """A named line through (step, value)."""

    name: str
    points: Sequence[tuple[float, float]]


def write_plot(log: Path, path: Path) -> None:
    """Draws a run's ``log.jsonl`` so far; an empty log writes no file."""
    if not log.exists():
        return
    records = [json.loads(line) for line in log.read_text().splitlines()]

    def curve(name: str, key: str) -> Curve:
        return Curve(name, [(r["step"], r[key]) for r in records if key in r])

    losses = [curve("loss", "loss"), curve("causal loss", "causal_loss")]
    shares = [curve("solved", "exact"), curve("right cells", "cells"), curve("right so far", "right")]
    if not losses[0].points:
        return
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    last = max(step for step, _ in losses[0].points)
    _panel(draw, TOP, "loss, nats a token", losses, last, _range(losses))
    _panel(draw, TOP + PANEL + BELOW, "share", shares, last, (0.0, 1.0))
    draw.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18), "step", fill=INK, font=_font(), anchor="mm")
    with replacing(path) as unfinished:
        image.save(unfinished, format="PNG")


def _range(curves: Sequence[Curve]) -> tuple[float, float]:
    values = [value for curve in curves for _, value in curve.points]
    return 0.0, max(values) * 1.05 or 1.0


def _panel(
    draw: ImageDraw.ImageDraw, top: int, title: str, curves: Sequence[Curve], last: float, reach: tuple[float, float]
) -> None:
    bottom, right = top + PANEL, WIDTH - RIGHT
    low, high = reach

    def place(step: float, value: float) -> tuple[float, float]:
        return LEFT + (right - LEFT) * step / last, bottom - PANEL * (value - low) / (high - low)

    for value in ticks(low, high):
        y = place(0, value)[1]
        draw.line([(LEFT, y), (right, y)], fill=FAINT)
        draw.text((LEFT - 8, y), f"{value:g}", fill=INK, font=_font(), anchor="rm")
    for step in ticks(0, last):
        x = place(step, low)[0]
        draw.line([(x, bottom), (x, bottom + 4)], fill=INK)
        draw.text((x, bottom + 16), f"{step:g}", fill=INK, font=_font(), anchor="mm")
    draw.line([(LEFT, top), (LEFT, bottom), (right, bottom)], fill=INK)
    draw.text((LEFT, top - 18), title, fill=INK, font=_font(), anchor="lm")
    x = float(right)
    for curve, colour in reversed([(c, colour) for c, colour in zip(curves, COLOURS, strict=False) if c.points]):
        x -= draw.textlength(curve.name, font=_font())
        draw.text((x, top - 18), curve.name, fill=colour, font=_font(), anchor="lm")
        draw.line([(x - 28, top - 18), (x - 8, top - 18)], fill=colour, width=3)
        x -= 48
        places = [place(step, value) for step, value in curve.points]
        if len(places) > 1:
            draw.line(places, fill=colour, width=2, joint="curve")
        if len(places) < 40:
            for px, py in places:
                draw.ellipse([px - 3, py - 3, px + 3, py + 3], fill=colour)


def ticks(low: float, high: float) -> list[float]:
    """Returns about five round values between two."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    first = math.ceil(low / step)
    return [round(index * step, 12) for index in range(first, int(high / step + 1e-9) + 1)]


def _font() -> Any:
    return ImageFont.load_default(14)
