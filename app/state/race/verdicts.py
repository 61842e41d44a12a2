"""Reads the texts of a finished race and checks them. Knows neither Qt nor torch."""

from __future__ import annotations

from dataclasses import dataclass

from app.state.race.prompts import is_right
from app.state.race.running import RaceRun, agreement
from engine import SafelightError


@dataclass(frozen=True)
class LaneReading:
    """A lane's text, its agreement with the first lane's (0 to 1), and whether it is right (None if not checkable)."""

    text: str
    agreement: float | None
    is_right: bool | None


def read_lanes(race: RaceRun) -> list[LaneReading]:
    """Reads and checks the lanes' texts. Takes time with long texts, and with a Sudoku, which is solved."""
    prompt = str(race.request.messages[-1]["content"])
    found: list[LaneReading] = []
    for lane in race.lanes:
        try:
            text = lane.text
        except SafelightError as error:  # the run's file cannot be read any more
            text = str(error)
        share = agreement(text, found[0].text) if found else None
        found.append(LaneReading(text, share, is_right(prompt, text)))
    return found
