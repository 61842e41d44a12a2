"""The tool ``inspect_run``: what happened at each step of a run that this server has made, and its draft at a step.

Runs are found among the live requests and the last ones that have ended, whose events are kept within bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from engine.errors import quoted
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefixPinned,
    StepFinished,
    step_number,
)
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.live import LiveRequest
from engine.server.mcp.calls import InspectArguments, ServedCall, ToolReply, shown
from engine.text.reply import Reply
from engine.trace.recording import Draft, Recording

MAX_ROWS = 60  # steps of a run that are listed; the middle ones of more are left out
MAX_DRAFT_CHARACTERS = 8_000  # characters of a draft
MAX_DOUBTED = 16  # positions of a step
MAX_TOKEN_CHARACTERS = 40  # characters of a token
DIGITS = 4  # of an entropy


async def inspect_run(call: ServedCall, asked: InspectArguments) -> ToolReply:
    request = _request_of(call.context, asked.run_id)
    return await asyncio.to_thread(_described, call.context, request, asked.step)


def _request_of(context: ServerContext, run_id: str) -> LiveRequest:
    """Returns the request of a run.

    Raises:
        ApiError: there is none, or its events are not kept any more.
    """
    request = next((one for one in context.live.snapshot() if one.id == run_id), None)
    if request is None:
        raise ApiError(404, f"There is no run {quoted(run_id)}; take the run_id of a recent result.", param="run_id")
    if request.trace is None:
        said = "waits" if request.state == "waiting" else "is too old, its steps are not kept"
        raise ApiError(404, f"The run {quoted(run_id)} {said}.", param="run_id")
    return request


def _described(context: ServerContext, request: LiveRequest, step: int | None) -> ToolReply:
    assert request.trace is not None
    recording = request.trace
    events = [recording.event(index) for index in range(len(recording.entries))]
    rows = list(_rows(events))
    head = {"run_id": request.id, "model": request.model, "state": request.state, "steps": len(rows)} | _end(events)
    if step is None:
        return _listed(head, rows)
    if step > len(rows):
        raise ApiError(400, f"step: this run has {len(rows)} steps so far.", param="step")
    return _at_step(head, rows[step - 1], _up_to(events, step), recording, _reader(context, recording))


def _listed(head: dict[str, Any], rows: Sequence[dict[str, Any]]) -> ToolReply:
    left_out = max(0, len(rows) - MAX_ROWS)
    kept = [*rows[: MAX_ROWS // 2], *rows[len(rows) - MAX_ROWS // 2 :]] if left_out else list(rows)
    lines = [_line(row) for row in kept]
    if left_out:
        lines.insert(MAX_ROWS // 2, f"({left_out} steps left out)")
    summary = ", ".join(f"{name} {value}" for name, value in head.items() if name != "run_id")
    return ToolReply("\n".join([summary, *lines]), head | {"rows": kept, "left_out": left_out})


def _at_step(
    head: dict[str, Any],
    row: dict[str, Any],
    events: Sequence[Event],
    recording: Recording,
    read: Callable[[Iterable[int]], Reply],
) -> ToolReply:
    last = events[-1]
    assert isinstance(last, StepFinished)
    draft = shown(
        Draft.from_events(events, recording.header.config.eos_token_ids).reply(read).text, MAX_DRAFT_CHARACTERS
    )
    unsure = [place for place in np.argsort(-last.entropy, kind="stable").tolist() if not last.accepted_mask[place]]
    doubted = [
        {
            "position": place,
            "token": recording.piece(int(last.argmax_canvas[place]))[:MAX_TOKEN_CHARACTERS],
            "entropy": round(float(last.entropy[place]), DIGITS),
        }
        for place in unsure[:MAX_DOUBTED]
    ]
    lines = [_line(row), "draft:", draft]
    if doubted:
        named = ", ".join(f"{one['token']!r} ({one['entropy']})" for one in doubted)
        lines.append(f"most doubtful tokens, with their entropy in nats: {named}")
    return ToolReply("\n".join(lines), head | {"row": row, "draft": draft, "doubted": doubted})


def _rows(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yields a row for each step: what it accepted, re-noised and took back, and the mean entropy in nats."""
    before = np.zeros(0, dtype=np.bool_)
    number = 0
    for event in events:
        match event:
            case CanvasStarted():
                before = np.zeros(len(event.canvas), dtype=np.bool_)
            case PrefixPinned():  # the rest is noise again, and not taken back
                before = np.arange(len(event.canvas)) < event.pinned
            case StepFinished():
                number += 1
                accepted = event.accepted_mask
                kept = int(accepted.sum())
                yield {
                    "step": number,
                    "block": event.block_index + 1,
                    "step_of_block": step_number(event.step),
                    "accepted": kept,
                    "renoised": len(accepted) - kept,
                    "taken_back": int((before & ~accepted).sum()) if len(before) == len(accepted) else 0,
                    "entropy": round(float(event.entropy.mean()), DIGITS),
                }
                before = accepted


def _line(row: dict[str, Any]) -> str:
    return (
        f"step {row['step']} (block {row['block']}, its step {row['step_of_block']}): {row['accepted']} accepted, "
        f"{row['renoised']} re-noised, {row['taken_back']} taken back, mean entropy {row['entropy']}"
    )


def _up_to(events: Sequence[Event], step: int) -> list[Event]:
    """Returns the events up to a step, counted from 1 over the run."""
    places = (place for place, event in enumerate(events) if isinstance(event, StepFinished))
    return list(events[: next(islice(places, step - 1, None)) + 1])


def _end(events: Sequence[Event]) -> dict[str, Any]:
    """Returns how a run ended, and how its blocks did; nothing of a run that goes on."""
    last = events[-1] if events else None
    if not isinstance(last, GenerationFinished):
        return {}
    ends = [event.reason for event in events if isinstance(event, CanvasCommitted)][:MAX_ROWS]
    return {"ended": last.reason, "tokens": len(last.tokens), "blocks": ends, "seconds": round(last.seconds, 3)}


def _reader(context: ServerContext, recording: Recording) -> Callable[[Iterable[int]], Reply]:
    """Returns what reads tokens: the loaded model if it made the run, else token by token."""
    model = context.scheduler.model
    if model is not None and model.fingerprint == recording.header.model.fingerprint:
        return model.decode
    return recording.spelled
