"""Tool calls within an answer, in rounds of text and calls before its last text. Knows neither Qt nor torch."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine import Recording
from engine.errors import SafelightError
from engine.files import parse_json, storable
from engine.text.message import Message
from engine.text.output import OutputParser
from engine.text.output_parts import ContentPart, ThoughtPart, ToolCallPart, joined
from engine.text.tags import THINK, THINK_END
from engine.tools.declared import ToolServer
from engine.tools.tool import MAX_CALLS, MAX_ROUNDS

STORED = (8_000, 1_000, 100)  # characters of a text that the library keeps, by the room that there is

CallStatus = Literal["waiting", "asking", "running", "done", "failed", "refused"]
Decision = Literal["once", "always", "no"]
"""The user's decision about a call."""
ENDED: tuple[CallStatus, ...] = ("done", "failed", "refused")


@dataclass(eq=False)
class ToolCall:
    """A call as the model wrote it, and its result, for the model and for people to read.

    Args:
        called: the name by which the model was offered the tool.
        server: whose tool it is, and what runs then, while the user is asked.
    """

    id: str
    called: str
    arguments: dict[str, Any]
    status: CallStatus = "waiting"
    result: str = ""
    seconds: float = 0.0
    server: ToolServer | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def written(self) -> str:
        """The arguments as people read them."""
        return json.dumps(self.arguments, indent=2, ensure_ascii=False)

    def end(self, status: CallStatus, result: str, seconds: float = 0.0) -> None:
        self.status, self.result, self.seconds = status, result, seconds


@dataclass(eq=False, repr=False)
class ToolRound:
    """The text of a model up to its calls, the calls, and the run that wrote both."""

    text: str
    thinking: str
    calls: list[ToolCall]
    trace: Recording | None = None  # of a run of this session
    trace_id: str = ""  # of the trace's file

    @property
    def has_trace(self) -> bool:
        """True if its run was recorded, so that it can be inspected."""
        return self.trace is not None or bool(self.trace_id)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The round as messages for the model: the calls, and their results."""
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.called, "arguments": call.arguments}}
            for call in self.calls
        ]
        results = (
            {"role": "tool", "name": call.called, "tool_call_id": call.id, "content": call.result}
            for call in self.calls
        )
        return ({"role": "assistant", "content": self.text, "tool_calls": calls}, *results)


def read_round(written: str, schemas: Mapping[str, Mapping[str, Any]], number: int) -> ToolRound | None:
    """Reads the calls of an output; None if it has no whole one.

    Args:
        written: the output with its tags.
        schemas: of the parameters of the tools, by the names that the model was offered.
        number: of the round, for the ids of its calls.
    """
    end = written.find(THINK_END)
    parser = OutputParser(starts_in_thought=end >= 0 and THINK not in written[:end], schemas=schemas)
    text, thinking, parts = list[str](), list[str](), list[ToolCallPart]()
    for part in joined([*parser.feed(written), *parser.finish()]):
        match part:
            case ContentPart(piece):
                text += [] if parts else [piece]
            case ThoughtPart(piece):
                thinking.append(piece)
            case ToolCallPart():
                parts.append(part)
    calls = [
        ToolCall(f"call_{number}_{part.index}", part.name, arguments)
        for part in [part for part in parts if not part.is_cut][:MAX_CALLS]
        if (arguments := _object(part.arguments)) is not None
    ]
    said = storable("".join(text)).strip()
    if not calls and (bare := _bare_call(said, schemas)) is not None:
        calls, said = [ToolCall(f"call_{number}_0", *bare)], ""
    return ToolRound(said, "".join(thinking), calls) if calls else None


def _bare_call(text: str, schemas: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Returns the call that a text is as a whole, without its tags, as small models write it; None if it is none."""
    call = _object(text.removeprefix("```json").removeprefix("```").removesuffix("```").strip()) or {}
    name, arguments = call.get("name"), call.get("arguments")
    if isinstance(name, str) and name in schemas and isinstance(arguments, dict):
        return name, arguments
    return None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = parse_json(text or "{}", "the arguments")
    except SafelightError:
        return None
    return value if isinstance(value, dict) else None


def rounds_to_json(rounds: Sequence[ToolRound], room: int) -> list[Any]:
    """Returns rounds as JSON, for the library, of at most ``room`` characters; long texts are cut."""
    for most in STORED:
        entries = [_round_json(one, most) for one in rounds]
        if len(json.dumps(entries)) <= room:
            return entries
    return []


def _round_json(one: ToolRound, most: int) -> dict[str, Any]:
    calls = [
        {
            "id": call.id,
            "name": call.called,
            "arguments": _written(call.arguments, most),
            "status": call.status if call.has_ended else "refused",
            "result": call.result[:most],
            "seconds": call.seconds,
        }
        for call in one.calls
    ]
    return {"text": one.text[:most], "thinking": one.thinking[:most], "trace": one.trace_id, "calls": calls}


def rounds_from_json(raw: Any) -> list[ToolRound]:
    """Reads rounds from the library; what cannot be read is left out."""
    rounds = []
    for one in raw[:MAX_ROUNDS] if isinstance(raw, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("calls"), list):
            continue
        calls = [call for entry in one["calls"][:MAX_CALLS] if (call := _call_from_json(entry)) is not None]
        if calls:
            rounds.append(ToolRound(_text(one, "text"), _text(one, "thinking"), calls, trace_id=_text(one, "trace")))
    return rounds


def _written(arguments: Mapping[str, Any], most: int) -> str:
    """Returns arguments as JSON of at most ``most`` characters; of long ones only the beginning is kept."""
    written, room = json.dumps(arguments), most
    while len(written) > most and room > 1:
        room //= 2
        kept = itertools.islice(arguments.items(), room)
        written = json.dumps({name[:room]: _beginning(value, room) for name, value in kept})
    return written if len(written) <= most else "{}"


def _beginning(value: Any, most: int) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return value if len(text) <= most else f"{text[:most]}…"


def _call_from_json(raw: Any) -> ToolCall | None:
    if not isinstance(raw, dict) or not _text(raw, "name"):
        return None
    status, seconds = raw.get("status"), raw.get("seconds")
    call = ToolCall(_text(raw, "id"), _text(raw, "name"), _object(_text(raw, "arguments")) or {})
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds < 10**6:
        seconds = 0.0
    known: CallStatus = next((one for one in ENDED if one == status), "refused")
    call.end(known, _text(raw, "result"), float(seconds))
    return call


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""
