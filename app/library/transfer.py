"""Exports conversations to files and imports them: JSON with the whole tree, Markdown of the shown path.

``to_json`` and ``from_json`` are inverse to each other, except for ids.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from app.library.errors import LibraryError
from app.library.records import MAX_VALUES, ROUNDS, UNFINISHED, StoredMessage, Summary, Whole, details_of
from app.state.chat.attachment import AttachedPicture
from app.state.chat.calls import ToolRound, rounds_from_json
from app.state.chat.fences import fenced
from app.system.i18n import tr
from engine import SafelightError
from engine.declared import many, plain, read
from engine.files import open_regular, parse_json, read_bytes, storable, write_text
from engine.pictures import MAX_BYTES, Picture

FORMAT = "safelight-conversation"
VERSION = 1
LARGEST_PICTURES = 56 * 2**20  # bytes of all pictures; base 64 takes a third more
LARGEST_FILE = 128 * 2**20  # bytes; parsed data other than pictures takes up to ten times as much
MAX_MESSAGES = 10_000  # per file, since a conversation is read as a whole when opened
MAX_PICTURES = 4_000  # per file, since each is read when the conversation is opened
Items = Annotated[tuple[Any, ...], many(MAX_MESSAGES)]


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
    title = " ".join(summary.title.split()) or tr("Untitled")
    parts = [f"# {title}", f"*{_day(summary.created)}*"]
    if summary.system_prompt:
        parts += [f"**{tr('System prompt')}**", _quoted(summary.system_prompt)]
    for message in path_on_show(whole.messages):
        parts.append(f"## {_speaker(message)}")
        for file in message.attachments:
            parts += [f"**{' '.join(file.name.split())}**", fenced(file.text)]
        parts += [f"*{_named(picture)}*" for picture in message.pictures]
        for tool_round in rounds_of(message):
            parts += [_quoted(tool_round.thinking)] if tool_round.thinking else []
            parts += [tool_round.text] if tool_round.text else []
            for call in tool_round.calls:
                said = tr("Call of a tool: {name}", name=call.called)
                parts += [f"**{said}**", fenced(call.written), fenced(call.result)]
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


def _named(shown: AttachedPicture) -> str:
    name = " ".join(shown.name.split())
    return tr("Picture: {name}", name=name) if name else tr("Picture")


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


def to_json(whole: Whole) -> str:
    """Returns a whole conversation as JSON. Messages are numbered from 1 and refer to their parent's number.

    Raises:
        LibraryError: its pictures are too large for a file.
    """
    numbers: dict[int | None, int | None] = {None: None}
    numbers |= {message.id: place for place, message in enumerate(whole.messages, start=1)}
    raw: dict[str, Any] = {"format": FORMAT, "version": VERSION} | plain(whole.summary)
    del raw["id"]
    raw["messages"] = [
        plain(message)
        | {"id": numbers[message.id], "parent": numbers[message.parent]}
        | ({"status": "stopped"} if message.status in UNFINISHED else {})
        for message in whole.messages
    ]
    if sum(len(picture.data) for picture in whole.pictures) > LARGEST_PICTURES:
        raise LibraryError(
            f"the pictures of this conversation have more than {LARGEST_PICTURES // 2**20} MiB, the most that a JSON "
            "file takes. Export it as HTML or Markdown, or delete some of them"
        )
    if whole.pictures:
        raw["pictures"] = {picture.digest: b64encode(picture.data).decode() for picture in whole.pictures}
    return json.dumps(raw, ensure_ascii=False, indent=2) + "\n"


def from_json(text: str, name: str = "this file") -> Whole:
    """Reads the output of ``to_json``, checking every field.

    Raises:
        LibraryError: it is from another program or a newer Safelight, or damaged; names the error.
    """
    try:
        raw = parse_json(text, name, values=MAX_VALUES)
    except SafelightError as error:
        why = str(error).removeprefix(name).strip()
        raise LibraryError(f"{name} is not a conversation: it {why}. Choose a file that Safelight exported") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise LibraryError(f"{name} is not a Safelight conversation. Choose one that was exported as JSON")
    version = raw.get("version")
    if type(version) is int and version > VERSION:
        raise LibraryError(f"{name} is from a newer Safelight. Update Safelight to import it")
    if version != VERSION or version is True:
        raise _damaged(name, "its version is not known")
    messages: list[StoredMessage] = []
    known: set[int] = set()
    try:
        summary = read(Summary, raw | {"id": 0}, "the conversation")
        items: tuple[Any, ...] = read(Items, raw.get("messages"), "messages")
    except SafelightError as error:
        raise _damaged(name, str(error)) from None
    for place, item in enumerate(items, start=1):
        messages.append(_message(item, f"{name}, message {place}", known))
        known.add(messages[-1].id)
    if sum(len(message.pictures) for message in messages) > MAX_PICTURES:
        raise _damaged(name, f"its messages show more than {MAX_PICTURES:,} pictures")
    return Whole(summary, tuple(messages), _pictures(raw.get("pictures", {}), messages, name))


def _damaged(place: str, why: str) -> LibraryError:
    return LibraryError(f"{place} is damaged: {why}. Export the conversation again")


def _message(raw: Any, place: str, known: set[int]) -> StoredMessage:
    try:
        message = read(StoredMessage, raw, "the message")
    except SafelightError as error:
        raise _damaged(place, str(error)) from None
    if message.id in known:
        raise _damaged(place, "its id is used twice")
    if message.parent is not None and message.parent not in known:
        raise _damaged(place, "its parent is not a message before it")
    if message.status in UNFINISHED:
        raise _damaged(place, f"its status must not be {message.status}")
    return message


def _pictures(raw: object, messages: list[StoredMessage], name: str) -> tuple[Picture, ...]:
    """Returns the pictures of messages after checking their hashes; they are not decoded here."""
    if not isinstance(raw, dict):
        raise _damaged(name, "its pictures must be an object")
    shown = {picture.digest: picture for message in messages for picture in message.pictures}
    pictures = []
    for digest, picture in shown.items():
        try:
            data = b64decode(raw.get(digest, ""), validate=True)
        except (ValueError, TypeError):
            raise _damaged(name, "its pictures must be texts in base 64") from None
        if data and (len(data) > MAX_BYTES or hashlib.sha256(data).hexdigest() != digest):
            raise _damaged(name, "its pictures hold a different one than it says")
        if data:
            pictures.append(Picture(digest, data, picture.width, picture.height))
    return tuple(pictures)


def is_own(path: Path) -> bool:
    """Returns True for a JSON file that begins as Safelight's exports do; False if it cannot be read."""
    try:
        with open_regular(path) as file:
            return f'"format": "{FORMAT}"'.encode() in file.read(200)
    except (SafelightError, OSError):
        return False


def read_file(path: Path) -> Whole:
    """Reads a conversation from an exported JSON file. Raises ``SafelightError`` if it cannot be read."""
    try:
        text = read_bytes(path, LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LibraryError(
            f"{path.name} is not a text file. Choose a conversation that Safelight exported as JSON"
        ) from None
    except OSError as fault:
        raise LibraryError(f"{path} cannot be read ({fault.strerror}). Choose another file") from fault
    return from_json(text, path.name)


def write_file(path: Path, whole: Whole, format: str) -> None:
    """Writes an export as ``markdown``, ``json`` or ``html``, readable only by its owner; needs no library.

    A file of that name is replaced once everything is written.

    Raises:
        SafelightError: it cannot be written.
    """
    write_text(path, storable(WRITERS[format](whole)), private=True)


WRITERS: dict[str, Callable[[Whole], str]] = {"markdown": to_markdown, "json": to_json}
