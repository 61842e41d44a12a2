"""A run's request as JSON. ``kind`` says which fields it has; a field that is not of its kind is refused.

    chat           messages, config, seed, think, reserve, tools, output_format, outline, noise, adapter
    puzzle         messages, config, seed, think, reserve, tools, adapter
    decision       decision, pictures, config, seed, adapter

``config`` has a ``GenerationConfig``'s fields; those left out have its defaults. ``decision`` and ``output_format``,
which may be null, are as in a trace's header; ``messages`` and ``tools`` are as chat templates take them. ``adapter``
is null for the attached one, an empty text for none. ``pictures``, and the images of messages, are digests of pictures
that were sent before. ``outline`` is as ``engine.text.outline`` writes it; it and ``noise`` are left out where there is
none. The receiver chooses the run's id, and if its trace is kept. The end of the connection cancels the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.config import LARGEST_SEED, MOST_POSITIONS
from engine.errors import SafelightError, quoted
from engine.service.requests import RunKind, RunRequest
from engine.service.wire.fields import fields, flag, items, reading, real, string, whole
from engine.service.wire.pictures import FindPicture, digests_from_json, sent_before, shown_in
from engine.tasks.decisions.forms import decision_from_json, decision_to_json
from engine.text.message import Message, read_images
from engine.text.outline import MOST_HOLES, Outline, outline_from_json, outline_to_json
from engine.text.output_format import OutputFormat
from engine.trace.header import MOST_NAME, read_config

MOST_MESSAGES, MOST_TOOLS = 4_096, 256
MOST_CHARACTERS = 2**21  # characters of a message, which a tokenizer reads at once
_CHAT = ("kind", "messages", "config", "seed", "think", "reserve", "tools", "adapter")
_FIELDS: dict[RunKind, tuple[str, ...]] = {
    "chat": (*_CHAT, "output_format", "outline", "noise"),
    "puzzle": _CHAT,
    "decision": ("kind", "decision", "pictures", "config", "seed", "adapter"),
}
_OPTIONAL = ("kind", "think", "reserve", "tools", "output_format", "adapter", "pictures", "outline", "noise")
_MESSAGE = ("role", "content", "tool_calls", "reasoning_content", "name", "tool_call_id", "images")


def request_to_json(request: RunRequest) -> dict[str, Any]:
    """Returns a request as JSON; ``request_from_json`` makes the same run of it, bit for bit.

    Raises:
        SafelightError: such a run is made where its model runs.
    """
    if request.kind not in _FIELDS:
        raise SafelightError("only the machine that runs the model goes on from a recorded run, or from a text")
    whole_request: dict[str, Any] = {
        "kind": request.kind,
        "messages": [dict(message) for message in request.messages],
        "config": dataclasses.asdict(request.config),
        "seed": request.seed,
        "think": request.think,
        "reserve": request.reserve,
        "tools": [dict(tool) for tool in request.tools],
        "adapter": request.adapter,
        "decision": None if request.decision is None else decision_to_json(request.decision),
        "output_format": None if request.output_format is None else request.output_format.to_json(),
        "pictures": [picture.digest for picture in request.pictures],
        "outline": outline_to_json(request.outline),
        "noise": request.noise,
    }
    absent = {name for name in ("pictures", "outline", "noise") if whole_request[name] in (None, [], 0.0)}
    absent |= set() if request.path else {"path"}
    return {name: whole_request[name] for name in _FIELDS[request.kind] if name not in absent}


def request_from_json(raw: Any, find: FindPicture) -> RunRequest:
    """Returns a request with its own id and cancel flag. It is not checked against the model.

    Raises:
        SafelightError: it is none, or shows a missing picture; the sentence names the field.
    """
    kind = _kind(raw)
    needed = [name for name in _FIELDS[kind] if name not in _OPTIONAL]
    raw = fields(raw, f"a run of kind {kind}", _FIELDS[kind], needed)
    adapter = raw.get("adapter")
    if adapter is not None:
        adapter = string(raw, "adapter", MOST_NAME)
    seed = whole(raw, "seed", 0, LARGEST_SEED)
    with reading("the run"):
        config, unknown = read_config(raw["config"])
    if unknown:
        raise SafelightError(f"the settings {quoted(', '.join(unknown), 200)} are not known; leave them out")
    if kind == "decision":
        decision, pictures = decision_from_json(raw["decision"]), sent_before(digests_from_json(raw, "pictures"), find)
        return RunRequest(kind, (), config, seed, adapter=adapter, decision=decision, pictures=pictures)
    messages = messages_from_json(raw["messages"])
    return RunRequest(
        kind,
        messages,
        config,
        seed,
        think=flag(raw, "think"),
        reserve=whole(raw, "reserve", 0, MOST_POSITIONS, 0),
        tools=tools_from_json(raw),
        output_format=None if raw.get("output_format") is None else OutputFormat.from_json(raw["output_format"]),
        adapter=adapter,
        pictures=shown_in(messages, find),
        outline=_outline(raw),
        noise=real({"noise": 0.0, **raw}, "noise"),
    )


def tools_from_json(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Returns the ``tools`` of an object; none if it has none.

    Raises:
        SafelightError: they are none.
    """
    tools = items(raw, "tools", MOST_TOOLS)
    if not all(isinstance(tool, dict) for tool in tools):
        raise SafelightError("tools must be a list of objects")
    return tuple(tools)


def messages_from_json(raw: Any) -> tuple[Message, ...]:
    """Returns a conversation.

    Raises:
        SafelightError: it is none.
    """
    messages = tuple(_message(message) for message in items({"messages": raw}, "messages", MOST_MESSAGES))
    if not messages:
        raise SafelightError("a conversation needs at least one message")
    return messages


def _outline(raw: Any) -> Outline:
    outline = outline_from_json(items(raw, "outline", 2 * MOST_HOLES + 1))
    if sum(len(part if isinstance(part, str) else part.like) for part in outline) > MOST_CHARACTERS:
        raise SafelightError(f"the outline has more than {MOST_CHARACTERS:,} characters; shorten it")
    return outline


def _kind(raw: Any) -> RunKind:
    given = raw.get("kind") if isinstance(raw, dict) else None
    for kind in _FIELDS:
        if given == kind:
            return kind
    raise SafelightError(f"a run's kind must be one of {', '.join(_FIELDS)}, not {quoted(given)}")


def _message(raw: Any) -> Message:
    raw = fields(raw, "a message", _MESSAGE, ("role", "content"))
    for name in raw:
        if name == "tool_calls":
            if not all(isinstance(call, dict) for call in items(raw, name, MOST_TOOLS)):
                raise SafelightError("a message's tool_calls must be a list of objects")
        elif name != "images":
            string(raw, name, MOST_CHARACTERS)
    images = {"images": read_images(raw["images"], raw["content"])} if "images" in raw else {}
    return {**raw, **images}
