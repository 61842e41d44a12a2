"""Formats figures of a run, each with only its significant digits."""

from __future__ import annotations

from app.state.run.canvas import BlockState
from app.system.i18n import tr


def block_end_words(block: BlockState) -> str:
    """Describes the end of a block that stalled; empty if it converged, or ran out of steps."""
    return tr("stalled at step {step}, taken as it is", step=block.steps) if block.reason == "stalled" else ""


def seconds_text(seconds: float) -> str:
    """Returns a duration with its unit."""
    if seconds < 0.1:
        return tr("{count} ms", count=f"{1000 * seconds:.0f}")
    return tr("{count} s", count=f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}")


def rate_text(rate: float) -> str:
    """Returns tokens per forward or per second, without a unit."""
    return f"{rate:,.1f}" if rate >= 0.1 else f"{rate:.2f}"
