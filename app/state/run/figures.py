"""Figures of a run as they stand beside it, each with as many digits as tell something."""

from __future__ import annotations

from app.system.i18n import tr


def seconds_text(seconds: float) -> str:
    """A duration with its unit."""
    if seconds < 0.1:
        return tr("{count} ms", count=f"{1000 * seconds:.0f}")
    return tr("{count} s", count=f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}")


def rate_text(rate: float) -> str:
    """Tokens by forwards or seconds; without a unit."""
    return f"{rate:,.1f}" if rate >= 0.1 else f"{rate:.2f}"
