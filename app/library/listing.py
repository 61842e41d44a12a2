"""Titles of conversations, and their grouping under headers by the time of the last message."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo

from app.library.records import Summary
from app.state.sudoku.placing import grid_in
from app.system.i18n import tr, trn


@dataclass(frozen=True)
class Group:
    """A header and the conversations under it."""

    title: str
    summaries: tuple[Summary, ...]


def group(summaries: Iterable[Summary], now: float, zone: tzinfo | None = None) -> list[Group]:
    """Returns non-empty groups, in the order of their first conversations.

    Args:
        now: seconds since 1970.
        zone: time zone in which days begin; None for that of this computer.
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
    except (OverflowError, OSError, ValueError):  # a time outside the calendar
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


LONGEST_TITLE = 48  # characters
SHORTEST_TITLE = 24  # characters; a line is cut within a word rather than shorter than this
_JOINERS = ("\u200d", "\ufe0f", "\ufe0e")


def title_of(text: str) -> str:
    """Returns the first non-empty line, cut at a word to at most ``LONGEST_TITLE`` characters; may be empty.

    A text with a Sudoku is titled as such, since its digits would say nothing in a list.
    """
    grid = grid_in(text)
    if grid is not None:
        return trn("Sudoku, {count} given", "Sudoku, {count} givens", len(grid.answer) - grid.answer.count("."))
    line = next((said for said in map(_said, text.splitlines()) if said), "")
    if len(line) <= LONGEST_TITLE:
        return line
    end = line.rfind(" ", 0, LONGEST_TITLE)
    if end < SHORTEST_TITLE:
        end = LONGEST_TITLE - 1
        while end > 1 and (_hangs_on(line[end]) or line[end - 1] == _JOINERS[0]):
            end -= 1
    return line[:end].rstrip(" ,;:.-–—") + "…"


def _said(line: str) -> str:
    """Returns a line without heading marks, with single spaces in place of invisible characters."""
    visible = "".join(" " if unicodedata.category(sign) in ("Cc", "Cs") else sign for sign in line)
    return " ".join(visible.split()).lstrip("#").lstrip()


def _hangs_on(sign: str) -> bool:
    """Returns True if a character is drawn as one with the character before."""
    return sign in _JOINERS or bool(unicodedata.combining(sign)) or 0x1F3FB <= ord(sign) <= 0x1F3FF
