"""Events of runs, as tests look at them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from engine import CanvasCommitted, Event, GenerationFinished, StepFinished


def of_kind(events: Iterable[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def steps_of(events: Iterable[Any]) -> list[StepFinished]:
    return of_kind(events, StepFinished)


def commits(events: Iterable[Any]) -> list[CanvasCommitted]:
    return of_kind(events, CanvasCommitted)


def end_of(events: Iterable[Any]) -> GenerationFinished:
    *_, last = events
    assert isinstance(last, GenerationFinished)
    return last


def stopped(events: Iterable[Event], flag: threading.Event, after: int) -> list[Event]:
    """Take a run's events; its flag goes up once there were so many steps, with 0 before it begins."""
    found = list[Event]()
    if not after:
        flag.set()
    for event in events:
        found.append(event)
        if len(steps_of(found)) == after:
            flag.set()
    return found


def facts(events: Iterable[Event]) -> list[Any]:
    """Everything in the events but the clock."""
    found: list[Any] = []
    for event in events:
        for field in dataclasses.fields(event):
            value = getattr(event, field.name)
            if field.name != "seconds":
                found.append(value.tolist() if isinstance(value, np.ndarray) else value)
    return found
