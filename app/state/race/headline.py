"""Says in a sentence who won a finished race, from its figures. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.state.race.running import LaneFigures
from app.system.i18n import tr

LEAST_LEAD = 1.1  # times faster; a smaller lead is a tie, as times on one machine vary so much


@dataclass(frozen=True)
class LaneEnd:
    """A finished lane: its name, its figures and text, its verdict (None if not checkable), and why it failed."""

    name: str
    figures: LaneFigures
    text: str
    is_right: bool | None = None
    problem: str = ""


def short_names(titles: Sequence[str]) -> list[str]:
    """Returns what distinguishes the lanes: the decoders, the models, or the whole titles of "model · decoder"."""
    parts = [title.split(" · ") for title in titles]
    kinds = ([own[-1] for own in parts], [own[0] for own in parts])
    return next((names for names in kinds if len(set(names)) == len(names)), list(titles))


def headline(lanes: Sequence[LaneEnd]) -> str:
    """Returns who won. Lanes that failed or wrote nothing are named, and leave no winner if there are not two others.

    A wrong answer loses to a right one.
    """
    ended = [lane for lane in lanes if not lane.problem and lane.text.strip()]
    lost = [
        tr("{lane} failed.", lane=lane.name) if lane.problem else tr("{lane} wrote nothing.", lane=lane.name)
        for lane in lanes
        if lane not in ended
    ]
    if len(ended) < 2:
        return tr("No winner: {lost}", lost=" ".join(lost))
    right = [lane for lane in ended if lane.is_right]
    only = tr("{lane}: the only right answer.", lane=right[0].name) if len(right) == 1 else ""
    return " ".join((only or _fastest(right or ended), *lost))


def _fastest(lanes: Sequence[LaneEnd]) -> str:
    """Compares the fastest lane with the next one: by seconds if the texts are equal, else by tokens per second."""
    is_same = all(lane.text == lanes[0].text for lane in lanes)

    def cost(lane: LaneEnd) -> float:
        return lane.figures.seconds if is_same else lane.figures.seconds / max(1, lane.figures.tokens)

    first, second = sorted(lanes, key=cost)[:2]
    ratio = cost(second) / cost(first) if cost(first) > 0 else 1.0
    times = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
    if ratio < LEAST_LEAD:
        lead = tr("A tie: {first} and {second} are equally fast", first=first.name, second=second.name)
    elif is_same:
        lead = tr("{lane}: {times}× faster", lane=first.name, times=times)
    else:
        lead = tr("{lane}: {times}× as many tokens a second", lane=first.name, times=times)
    said = [lead, tr("same text") if is_same else tr("different texts")]
    mine, other = first.figures.forwards, second.figures.forwards
    if mine != other:
        said.append(tr("{mine} passes instead of {other}", mine=f"{mine:,}", other=f"{other:,}"))
    return tr("{parts}.", parts=", ".join(said))
