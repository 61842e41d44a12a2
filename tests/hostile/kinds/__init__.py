"""The kinds of hostile input, one module a subject; each module lists its own in ``KINDS``."""

from __future__ import annotations

import importlib
import pkgutil

from tests.hostile.kind import Kind


def all_kinds() -> dict[str, Kind]:
    """Every kind by its name."""
    found: dict[str, Kind] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for kind in importlib.import_module(f"{__name__}.{module}").KINDS:
            assert kind.name not in found, f"two kinds are called {kind.name}"
            found[kind.name] = kind
    return found
