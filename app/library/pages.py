"""Exports the shown path of a conversation as a document in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from app.library.records import ROUNDS, StoredMessage, Whole, details_of
from app.state.chat.attachment import AttachedPicture
from app.state.chat.calls import ToolCall, ToolRound, rounds_from_json
from app.system.i18n import tr
from engine import SafelightError


def path_on_show(messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    """Returns the shown messages from the beginning of a conversation to its end."""
    following = {message.parent: message for message in messages if message.shown}
    path: list[StoredMessage] = []
    parent: int | None = None
    while parent in following:
        path.append(following[parent])
        parent = path[-1].id
    return path


def to_markdown(whole: Whole) -> str:
    """Returns a conversation as Markdown. Answers are Markdown already and are copied unchanged."""
    summary = whole.summary
    parts = [f"# {_title(whole)}", f"*{_day(summary.created)}*"]
    if summary.system_prompt:
        parts += [f"**{tr('System prompt')}**", _quoted(summary.system_prompt)]
    for message in path_on_show(whole.messages):
        parts.append(f"## {_speaker(message)}")
        for file in message.attachments:
            parts += [f"**{' '.join(file.name.split())}**", _fenced(file.text)]
        parts += [f"*{_named(picture)}*" for picture in message.pictures]
        for made in rounds_of(message):
            parts += [_quoted(made.thinking)] if made.thinking else []
            parts += [made.text] if made.text else []
            for call in made.calls:
                parts += [f"**{_called(call)}**", _fenced(call.written), _fenced(call.result)]
        if message.thinking:
            parts += [f"**{tr('Thinking')}**", _quoted(message.thinking)]
        parts += [message.content] if message.content else []
        parts += [f"*{remark}*" for remark in _remarks(message)]
    return "\n\n".join(parts) + "\n"


def rounds_of(message: StoredMessage) -> list[ToolRound]:
    """Returns the rounds of tool calls before an answer's text."""
    try:
        return rounds_from_json(details_of(message.settings, "settings").get(ROUNDS))
    except SafelightError:
        return []


def _called(call: ToolCall) -> str:
    return tr("Call of a tool: {name}", name=call.called)


def _named(shown: AttachedPicture) -> str:
    name = " ".join(shown.name.split())
    return tr("Picture: {name}", name=name) if name else tr("Picture")


def _title(whole: Whole) -> str:
    return " ".join(whole.summary.title.split()) or tr("Untitled")


def _day(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""


def _speaker(message: StoredMessage) -> str:
    return tr("You") if message.role == "user" else " ".join(message.model.split()) or tr("Assistant")


def _remarks(message: StoredMessage) -> Sequence[str]:
    if message.status == "failed":
        return (tr("Failed: {error}", error=message.error) if message.error else tr("Failed"),)
    return () if message.status == "done" else (tr("Stopped"),)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
