"""A server of the embedded skills model on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import MINI
from tests.engine.server.served import Served, serving
from tests.loaded import ReadyBackend


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(ReadyBackend(), MINI) as found:
        yield found
