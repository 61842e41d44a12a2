"""A library in a temporary folder, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.library import Library

START = 1_700_000_000.0


class Clock:
    """A second goes by at each look."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "safelight"


@pytest.fixture
def reopen(folder: Path, clock: Clock) -> Iterator[Callable[[], Library]]:
    """Opens the library in the folder, as another window or start does; all are closed at the end."""
    opened: list[Library] = []

    def open_one() -> Library:
        opened.append(Library.open(folder, clock))
        return opened[-1]

    yield open_one
    for library in opened:
        library.close()


@pytest.fixture
def library(reopen: Callable[[], Library]) -> Library:
    return reopen()
