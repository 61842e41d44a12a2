"""Bytes in words. Knows no Qt."""

from __future__ import annotations

from app.system.i18n import tr


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
