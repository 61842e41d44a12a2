"""What this process takes of the memory, in bytes. Knows no Qt; the graphics card's memory is the engine's to tell."""

from __future__ import annotations

from app.system.i18n import tr


def used_bytes() -> int:
    """Resident memory of this process."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def total_bytes() -> int:
    """Memory of the machine."""
    import psutil

    return int(psutil.virtual_memory().total)


def size(count: float) -> str:
    """A number of bytes as people say it, in decimal units."""
    if count >= 1e9:
        shown = count / 1e9
        return tr("{count} GB", count=f"{shown:.1f}" if shown < 100 else f"{shown:,.0f}")
    if count >= 1e6:
        return tr("{count} MB", count=f"{count / 1e6:.0f}")
    if count >= 1e3:
        return tr("{count} kB", count=f"{count / 1e3:.0f}")
    return tr("{count} B", count=f"{count:.0f}")
