"""One thread: the tests' tensors are tiny, and waking a second thread costs more than it brings."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
import torch

from engine.kernels import cpu_w4a8, native


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=native.INSTRUCTIONS)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """The kernels in C for one set of instructions."""
    found = native.load(request.param)
    if found is None:
        pytest.skip(f"there is no C compiler here, or the processor has no {request.param}")
    return found


@pytest.fixture
def block(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> int:
    """Uses one set of instructions; the rows of its blocks of codes."""
    rows = int(library.native_block())
    monkeypatch.setattr(native, "library", lambda: library)
    monkeypatch.setattr(cpu_w4a8, "block", lambda: rows)
    return rows
