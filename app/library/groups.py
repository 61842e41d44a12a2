"""Conversations by when they were written to last, for the headers of a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from app.library.records import Summary
from app.system.i18n import tr


@dataclass(frozen=True)
class Group:
    """A header and what stands under it."""

    title: str
    summaries: tuple[Summary, ...]


def group(summaries: Iterable[Summary], now: float, zone: tzinfo | None = None) -> list[Group]:
    """Groups in the order in which their first conversations come; none is empty.

    Args:
        now: seconds since 1970.
        zone: where days begin; None is where this computer is.
    """
    today = datetime.fromtimestamp(now, zone).date()
    grouped: dict[str, list[Summary]] = {}
    for summary in summaries:
        grouped.setdefault(_title(summary, today, zone), []).append(summary)
    return [Group(title, tuple(members)) for title, members in grouped.items()]


def _title(summary: Summary, today: date, zone: tzinfo | None) -> str:
    if summary.pinned:
        return tr("Pinned")
    try:
        day = datetime.fromtimestamp(summary.updated, zone).date()
    except (OverflowError, OSError, ValueError):  # a time that no calendar has
        return tr("Undated")
    age = (today - day).days
    if age <= 0:  # the clock may have been set back
        return tr("Today")
    if age == 1:
        return tr("Yesterday")
    if age <= 7:
        return tr("Previous 7 days")
    if age <= 30:
        return tr("Previous 30 days")
    return tr("{month} {year}", month=_months()[day.month - 1], year=day.year)


def _months() -> tuple[str, ...]:
    return (
        tr("January"),
        tr("February"),
        tr("March"),
        tr("April"),
        tr("May"),
        tr("June"),
        tr("July"),
        tr("August"),
        tr("September"),
        tr("October"),
        tr("November"),
        tr("December"),
    )
