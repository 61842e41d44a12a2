"""The skills model by the local backend, for tests that only run it."""

from __future__ import annotations

import pytest

from engine.service import LocalBackend
from tests.engine.service.test_local import loaded


@pytest.fixture(scope="module")
def skills() -> LocalBackend:
    backend = LocalBackend()
    loaded(backend)
    return backend
