"""The skills model by the local backend, for tests that only run it."""

from __future__ import annotations

import pytest

from engine.service import LocalBackend
from tests.engine.service.test_local import loaded
from tests.loaded import ReadyBackend


@pytest.fixture(scope="module")
def skills() -> LocalBackend:
    backend = ReadyBackend()
    loaded(backend)
    return backend
