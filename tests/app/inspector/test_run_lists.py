"""Lists of runs from their headers: what to begin with, what to compare with, what was forked from what."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from app.inspector.forks.panel import RunItem
from app.inspector.run_lists import first_offers, other_offers, run_tree
from engine import Fork, GalleryTrace, TraceHeader
from engine.trace import Parent
from tests.engine.traces import header


def run(id: str, day: int = 1, prompt: str = "prompt", **fields: Any) -> TraceHeader:
    return dataclasses.replace(header(), id=id, created=f"2026-01-{day:02}T12:00:00+00:00", prompt=prompt, **fields)


def test_the_gallery_comes_before_the_users_runs() -> None:
    offers = first_offers([GalleryTrace(Path("g"), "Counting", "A note")], [(run("a", prompt="  two\nlines "), "a")])
    assert [(offer.title, offer.key, offer.section) for offer in offers] == [
        ("Counting", "g", "Gallery"),
        ("two lines", "a", "Your runs"),
    ]


def test_runs_of_the_same_prompt_come_first_and_each_run_once() -> None:
    here = run("here")
    session = [(here, "here"), (run("a", prompt="another"), "memory")]
    recent = [(run("a", prompt="another"), "file"), (run("b"), "b")]
    offers = other_offers(here, session, recent, [(run("c", prompt="of the gallery"), "c")], {"c": "Counting"})
    assert [(offer.key, offer.section) for offer in offers] == [
        ("b", "The same prompt"),
        ("memory", "This session"),
        ("c", "Gallery"),
    ]
    assert offers[-1].title == "Counting"


def test_a_fork_stands_under_the_run_it_comes_from() -> None:
    fork = run("fork", 2, parent=Parent("root", 0, 3), changes=(Fork(0, 3),))
    orphan = run("orphan", 3, parent=Parent("gone", 1, 0), changes=(Fork(1, 0),))
    items = run_tree([(orphan, "o"), (fork, "f"), (run("root"), "r"), (run("root"), "copy")])
    assert items == [
        RunItem("r", "", "prompt"),
        RunItem("f", "r", "Forked at block 1, step 4"),
        RunItem("o", "", "Forked at block 2, step 1"),
    ]
