"""Groups by local days, around midnight and over a change of clocks; titles from prompts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from app.library import Summary, title_of
from app.library.listing import group

BERLIN = timezone(timedelta(hours=1))
NOW = datetime(2025, 3, 15, 0, 0, 30, tzinfo=BERLIN)  # half a minute after midnight


def at(when: datetime, *, pinned: bool = False) -> Summary:
    return Summary(1, "x", 0.0, when.timestamp(), pinned)


@pytest.mark.parametrize(
    ("when", "zone", "title"),
    [
        (NOW, BERLIN, "Today"),
        (NOW + timedelta(days=3), BERLIN, "Today"),
        (NOW - timedelta(seconds=31), BERLIN, "Yesterday"),
        (NOW - timedelta(seconds=31), timezone(timedelta(hours=3)), "Today"),
        (datetime(2025, 3, 13, 23, 59, 59, tzinfo=BERLIN), BERLIN, "Previous 7 days"),
        (datetime(2025, 3, 7, 23, 59, tzinfo=BERLIN), BERLIN, "Previous 30 days"),
        (datetime(2025, 2, 12, 12, 0, tzinfo=BERLIN), BERLIN, "February 2025"),
        (datetime(2024, 12, 31, 23, 59, tzinfo=BERLIN), BERLIN, "December 2024"),
    ],
)
def test_headers_are_of_the_days_of_the_zone(when, zone, title):
    (only,) = group([at(when)], NOW.timestamp(), zone)
    assert only.title == title


def test_groups_keep_the_order_and_pinned_come_first():
    summaries = [
        at(NOW - timedelta(days=400), pinned=True),
        at(NOW, pinned=True),
        at(NOW),
        at(NOW - timedelta(hours=2)),
        at(NOW - timedelta(hours=23)),
        at(NOW - timedelta(days=400)),
    ]
    groups = group(summaries, NOW.timestamp(), BERLIN)
    assert [(g.title, len(g.summaries)) for g in groups] == [
        ("Pinned", 2),
        ("Today", 1),
        ("Yesterday", 2),
        ("February 2024", 1),
    ]
    assert [s for g in groups for s in g.summaries] == summaries


def test_an_impossible_time_has_a_group():
    (only,) = group([Summary(1, "x", 0.0, 1e20)], NOW.timestamp())
    assert only.title == "Undated"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        ("Sort 9 4 7 2 6.", "Sort 9 4 7 2 6."),
        ("\n\n  ## Plan\tfor   today\nmore", "Plan for today"),
        (
            "Explain how diffusion language models differ from the usual ones",
            "Explain how diffusion language models differ…",
        ),
        ("a" * 60, "a" * 47 + "…"),
        ("bell\x07 and \x1b[31mred", "bell and [31mred"),
        ("Solve this:\n" + "\n".join(["53..7...."] + ["........."] * 8), "Sudoku, 3 givens"),
    ],
)
def test_titles(text, title):
    assert title_of(text) == title
    assert len(title_of(text)) <= 48
