"""What can be done with a model as it is now. Knows neither Qt nor torch."""

from __future__ import annotations

from typing import Literal

from app.models.entries import ModelEntry
from app.models.jobs import JobKind, Phase

Action = Literal["load", "unload", "download", "resume", "pause", "cancel", "verify", "convert", "delete", "remove"]
ACTIONS: tuple[Action, ...] = (
    "load", "unload", "download", "resume", "pause", "cancel", "convert", "verify", "delete", "remove",
)  # fmt: skip


def actions(
    entry: ModelEntry, job: tuple[JobKind, Phase] | None, *, loaded: bool, can_convert: bool
) -> tuple[Action, ...]:
    """In the order of their buttons.

    Args:
        job: the heavy job about this model.
        can_convert: whether its packed form is not there or on the way yet.
    """
    if job is not None:
        kind, phase = job
        if phase == "queued":
            return ("cancel",)
        if phase != "running":
            return ()
        return ("cancel",) if kind == "verify" else ("pause", "cancel")
    if entry.state == "absent":
        return ("download",)
    if entry.state in ("unfinished", "unpacked"):
        return ("resume", "cancel")
    if entry.state == "missing":
        return ("remove",)
    found: list[Action] = ["unload" if loaded else "load"]
    if entry.group != "embedded":
        if not entry.is_packed and can_convert:
            found.append("convert")
        if entry.can_verify:
            found.append("verify")
        found.append("remove" if entry.group == "local" else "delete")
    return tuple(found)
