"""The end of a block that stalled, in words. Knows neither Qt nor torch."""

from __future__ import annotations

from app.state.run.canvas import BlockState
from app.system.i18n import tr


def block_end_words(block: BlockState) -> str:
    """Describes the end of a block that stalled; empty if it converged, or ran out of steps."""
    return tr("stalled at step {step}, taken as it is", step=block.steps) if block.reason == "stalled" else ""
