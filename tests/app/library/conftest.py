"""A library in a temporary folder, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
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
def library(folder: Path, clock: Clock) -> Iterator[Library]:
    made = Library.open(folder, clock)
    yield made
    made.close()
