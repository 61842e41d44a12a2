"""Checkpoints that several files read, none of which changes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.packing import released


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small released checkpoint whose layers can be packed."""
    return released(tmp_path_factory.mktemp("released") / "tiny")
