"""Remarks about a conversation that does not fit into the model's context. Knows no Qt."""

from __future__ import annotations

from app.system.i18n import tr, trn
from engine.text.context_window import Fit


def remark(found: Fit | None) -> str:
    """Returns a remark to show before sending; empty if everything fits or nothing is known yet."""
    if found is None or not found.dropped_turns:
        return problem(found)
    return problem(found) or trn(
        "The oldest turn no longer fits and will be left out.",
        "The oldest {count} turns no longer fit and will be left out.",
        found.dropped_turns,
    )


def problem(found: Fit | None) -> str:
    """Returns the reason why the prompt cannot be sent, in a sentence; empty if it can."""
    return tr(found.problem) if found is not None and found.problem else ""
