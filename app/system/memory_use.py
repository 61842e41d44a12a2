"""Memory of this process and of the machine, in bytes. Knows no Qt; GPU memory is reported by the engine."""

from __future__ import annotations

from typing import Any

from app.system.i18n import tr


def _psutil() -> Any:
    import psutil  # imported late, to show the window sooner

    return psutil


def used_bytes() -> int:
    """Returns the resident memory of this process."""
    return int(_psutil().Process().memory_info().rss)


def total_bytes() -> int:
    """Returns the memory of the machine."""
    return int(_psutil().virtual_memory().total)


def size(count: float) -> str:
    """Returns a number of bytes in decimal units, such as "1.5 GB"."""
    if count >= 1e9:
        shown = count / 1e9
        return tr("{count} GB", count=f"{shown:.1f}" if shown < 100 else f"{shown:,.0f}")
    if count >= 1e6:
        return tr("{count} MB", count=f"{count / 1e6:.0f}")
    if count >= 1e3:
        return tr("{count} kB", count=f"{count / 1e3:.0f}")
    return tr("{count} B", count=f"{count:.0f}")
