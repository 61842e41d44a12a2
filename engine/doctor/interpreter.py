"""Checks if Triton's interpreter can replace a card here."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version


def why_not() -> str | None:
    """Returns the reason why kernels cannot be interpreted in this environment, in words; None if they can."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    triton, numpy = version("triton"), version("numpy")
    if _number(triton) < (3, 7) and _number(numpy) >= (2, 4):
        return f"the interpreter of Triton {triton} fails with numpy {numpy}; it needs numpy 2.3 or Triton 3.7"
    return None


def _number(text: str) -> tuple[int, int]:
    """Returns the first two numbers of a version."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
