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
    kinds = ([own[-1] for own in parts], [own[0] for own in parts], list(titles))
    numbers = [tr("Lane {number}", number=place) for place in range(1, len(titles) + 1)]
    return next((names for names in kinds if len(set(names)) == len(names)), numbers)


def headline(lanes: Sequence[LaneEnd]) -> str:
    """Returns who won. Lanes that failed or wrote nothing are named, and leave no winner if there are not two others.

    A wrong answer loses to a right one.
    """
    ended = [lane for lane in lanes if not lane.problem and lane.text.strip()]
    lost = [_lost(lane) for lane in lanes if lane not in ended]
    if len(ended) >= 2:
        return " ".join((_winner(ended), *lost))
    return tr("No winner: {lost}", lost=" ".join(lost))


def _lost(lane: LaneEnd) -> str:
    return tr("{lane} failed.", lane=lane.name) if lane.problem else tr("{lane} wrote nothing.", lane=lane.name)


def _winner(lanes: Sequence[LaneEnd]) -> str:
    right = [lane for lane in lanes if lane.is_right]
    if right and any(lane.is_right is False for lane in lanes):
        if len(right) == 1:
            return tr("{lane}: the only right answer{pace}.", lane=right[0].name, pace=_pace_of_only(right[0], lanes))
        return _fastest(right, tr("among the right answers"))
    if all(lane.is_right is False for lane in lanes):
        return _fastest(lanes, tr("but no answer is right"))
    return _fastest(lanes)


def _fastest(lanes: Sequence[LaneEnd], remark: str = "") -> str:
    """Compares the fastest lane with the next one: by seconds if the texts are equal, else by tokens per second."""
    is_same = all(lane.text == lanes[0].text for lane in lanes)
    ranked = sorted(lanes, key=lambda lane: _cost(lane, is_same=is_same))
    first, second = ranked[0], ranked[1]
    costs = _cost(first, is_same=is_same), _cost(second, is_same=is_same)
    ratio = costs[1] / costs[0] if costs[0] > 0 else 1.0
    if ratio < LEAST_LEAD:
        lead = tr("A tie: {first} and {second} are equally fast", first=first.name, second=second.name)
    else:
        lead = tr(
            "{lane}: {lead}", lane=first.name, lead=_lead(_times(ratio), is_same=is_same, is_pair=len(lanes) == 2)
        )
    said = [lead, tr("same text") if is_same else tr("different texts")]
    said += [_passes(first, second), remark]
    return tr("{parts}.", parts=", ".join(filter(None, said)))


def _lead(times: str, *, is_same: bool, is_pair: bool) -> str:
    if is_same:
        return tr("{times}× faster", times=times) if is_pair else tr("{times}× faster than the next lane", times=times)
    if is_pair:
        return tr("{times}× as many tokens a second", times=times)
    return tr("{times}× as many tokens a second as the next lane", times=times)


def _passes(first: LaneEnd, second: LaneEnd) -> str:
    mine, other = first.figures.forwards, second.figures.forwards
    return "" if mine == other else tr("{mine} passes instead of {other}", mine=f"{mine:,}", other=f"{other:,}")


def _pace_of_only(right: LaneEnd, lanes: Sequence[LaneEnd]) -> str:
    """Returns how the only right lane's time compares with the fastest other one's, for the end of a sentence."""
    other = min((lane for lane in lanes if lane is not right), key=lambda lane: lane.figures.seconds)
    mine, its = right.figures.seconds, other.figures.seconds
    if min(mine, its) <= 0 or max(mine, its) / min(mine, its) < LEAST_LEAD:
        return ""
    if mine < its:
        return tr(", and {times}× faster", times=_times(its / mine))
    return tr(", but {other} was {times}× faster", other=other.name, times=_times(mine / its))


def _cost(lane: LaneEnd, *, is_same: bool) -> float:
    """Returns the lane's seconds, or its seconds per token."""
    return lane.figures.seconds if is_same else lane.figures.seconds / max(1, lane.figures.tokens)


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
