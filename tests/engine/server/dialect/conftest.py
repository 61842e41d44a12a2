"""A server of the embedded skills model on the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import MINI
from engine.service import LocalBackend
from tests.engine.server.served import Served, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(LocalBackend(), MINI) as found:
        yield found
