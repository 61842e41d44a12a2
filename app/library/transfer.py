"""Exports conversations to files and imports them: JSON with the whole tree, Markdown of the shown path.

``to_json`` and ``from_json`` are inverse to each other, except for ids.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.library.errors import LibraryError
from app.library.pages import to_markdown
from app.library.records import (
    LARGEST_SEED,
    LATEST,
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_VALUES,
    ROLES,
    STATUSES,
    UNFINISHED,
    StoredMessage,
    Summary,
    Whole,
    details_of,
)
from app.state.chat.attachment import AttachedPicture, Attachment
from engine import SafelightError
from engine.files import parse_json, read_bytes, storable, write_text
from engine.pictures import MOST_BYTES, Picture
from engine.text.message import MOST_IMAGES

FORMAT = "safelight-conversation"
VERSION = 1
LARGEST_PICTURES = 56 * 2**20  # bytes of all pictures; base 64 takes a third more
LARGEST_FILE = 128 * 2**20  # bytes; parsed data other than pictures takes up to ten times as much
MOST_MESSAGES = 10_000  # per file, since a conversation is read as a whole when opened
MOST_PICTURES = 4_000  # per file, since each is read when the conversation is opened
MOST_ATTACHMENTS = 100  # per message; the composer takes ten


class Fields:
    """Typed access to the fields of one object; ``place`` names it in error messages.

    Methods raise LibraryError if a field is missing or wrong.
    """

    def __init__(self, raw: object, place: str) -> None:
        self.place = place
        if not isinstance(raw, dict):
            raise LibraryError(f"{place} is damaged: an object is missing. Export the conversation again")
        self._raw: dict[str, Any] = raw

    def wrong(self, name: str, why: str) -> LibraryError:
        """Returns an error that names the field."""
        return LibraryError(f"{self.place} is damaged: “{name}” {why}. Export the conversation again")

    def _checked(self, name: str, why: str, is_valid: Callable[[Any], bool]) -> Any:
        value = self._raw.get(name)
        if not is_valid(value):
            raise self.wrong(name, why)
        return value

    def text(self, name: str, most: int = LONGEST_TEXT) -> str:
        """Returns a text of at most ``most`` characters; may be empty."""
        value: str = self._checked(name, "must be a text", lambda value: isinstance(value, str))
        if len(value) > most:
            raise self.wrong(name, f"is longer than {most:,} characters")
        return value

    def name(self, name: str) -> str:
        """Returns a text of at most ``LONGEST_NAME`` characters; may be empty."""
        return self.text(name, LONGEST_NAME)

    def details(self, name: str) -> str:
        """Returns a text that contains a JSON object, or is empty."""
        value = self.text(name)
        try:
            details_of(value, name)
        except SafelightError:
            raise self.wrong(name, "must be a JSON object in a text") from None
        return value

    def time(self, name: str) -> float:
        """Returns a time in seconds since 1970; NaN is refused."""
        why = "must be a time in seconds"
        return float(self._checked(name, why, lambda value: type(value) in (int, float) and 0 <= value <= LATEST))

    def truth(self, name: str) -> bool:
        return bool(self._checked(name, "must be true or false", lambda value: isinstance(value, bool)))

    def whole(self, name: str) -> int:
        """Returns a whole number from 0 to ``LARGEST_SEED``."""
        why = "must be a whole number"
        return int(self._checked(name, why, lambda value: type(value) is int and 0 <= value <= LARGEST_SEED))

    def whole_or_none(self, name: str) -> int | None:
        """Returns a whole number as ``whole``, or None for null or a missing field."""
        return self.whole(name) if self._raw.get(name) is not None else None

    def one_of(self, name: str, allowed: Sequence[object]) -> Any:
        """Returns a value that must be one of ``allowed``, which have one type."""
        why = f"must be one of {', '.join(map(str, allowed))}"
        return self._checked(name, why, lambda value: type(value) is type(allowed[0]) and value in allowed)

    def items(self, name: str, most: int, *, is_optional: bool = False) -> list[object]:
        """Returns a list of at most ``most`` items; an empty one if it is missing and ``is_optional``."""
        if is_optional and name not in self._raw:
            return []
        value: list[object] = self._checked(name, "must be a list", lambda value: isinstance(value, list))
        if len(value) > most:
            raise self.wrong(name, f"holds more than {most:,}")
        return value

    def all(self, declared: Mapping[str, Callable[[Fields, str], Any]]) -> dict[str, Any]:
        """Returns fields by their names; each is read as it is declared."""
        return {name: read(self, name) for name, read in declared.items()}


SUMMARY_FIELDS: dict[str, Callable[[Fields, str], Any]] = {
    "title": Fields.name,
    "created": Fields.time,
    "updated": Fields.time,
    "pinned": Fields.truth,
    "system_prompt": Fields.text,
    "preset": Fields.name,
    "model": Fields.name,
}
MESSAGE_FIELDS: dict[str, Callable[[Fields, str], Any]] = {
    "role": lambda fields, name: fields.one_of(name, ROLES),
    "status": lambda fields, name: fields.one_of(name, [status for status in STATUSES if status not in UNFINISHED]),
    "shown": Fields.truth,
    "created": Fields.time,
    "content": Fields.text,
    "thinking": Fields.text,
    "model": Fields.name,
    "seed": Fields.whole_or_none,
    "settings": Fields.details,
    "figures": Fields.details,
    "error": Fields.text,
}


def to_json(whole: Whole) -> str:
    """Returns a whole conversation as JSON. Messages are numbered from 1 and refer to their parent's number.

    Raises:
        LibraryError: its pictures are too large for a file.
    """
    summary = whole.summary
    numbers: dict[int | None, int | None] = {None: None}
    numbers |= {message.id: place for place, message in enumerate(whole.messages, start=1)}
    raw: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    raw |= {name: getattr(summary, name) for name in SUMMARY_FIELDS}
    raw["messages"] = [
        {"id": numbers[message.id], "parent": numbers[message.parent]}
        | {name: getattr(message, name) for name in MESSAGE_FIELDS}
        | ({"status": "stopped"} if message.status in UNFINISHED else {})
        | {"attachments": [asdict(file) for file in message.attachments]}
        | ({"pictures": [picture.to_json() for picture in message.pictures]} if message.pictures else {})
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
        raw = parse_json(text, name, values=MOST_VALUES)
    except SafelightError as error:
        why = str(error).removeprefix(name).strip()
        raise LibraryError(f"{name} is not a conversation: it {why}. Choose a file that Safelight exported") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise LibraryError(f"{name} is not a Safelight conversation. Choose one that was exported as JSON")
    version = raw.get("version")
    if type(version) is int and version > VERSION:
        raise LibraryError(f"{name} is from a newer Safelight. Update Safelight to import it")
    fields = Fields(raw, name)
    fields.one_of("version", (VERSION,))
    summary = Summary(0, **fields.all(SUMMARY_FIELDS))
    messages: list[StoredMessage] = []
    known: set[int] = set()
    pictures = 0
    for place, item in enumerate(fields.items("messages", MOST_MESSAGES), start=1):
        message = _message(Fields(item, f"{name}, message {place}"), known)
        known.add(message.id)
        messages.append(message)
        pictures += len(message.pictures)
    if pictures > MOST_PICTURES:
        raise fields.wrong("messages", f"show more than {MOST_PICTURES:,} pictures")
    return Whole(summary, tuple(messages), _pictures(raw.get("pictures", {}), messages, fields))


def _message(fields: Fields, known: set[int]) -> StoredMessage:
    id = fields.whole("id")
    if id in known:
        raise fields.wrong("id", "is used twice")
    parent = fields.whole_or_none("parent")
    if parent is not None and parent not in known:
        raise fields.wrong("parent", "is not a message before it")
    return StoredMessage(
        parent=parent,
        **fields.all(MESSAGE_FIELDS),
        attachments=tuple(
            Attachment(file.name("name"), file.text("text"))
            for item in fields.items("attachments", MOST_ATTACHMENTS)
            for file in [Fields(item, f"{fields.place}, attachment")]
        ),
        pictures=_attached(fields),
        id=id,
    )


def _attached(fields: Fields) -> tuple[AttachedPicture, ...]:
    raw = fields.items("pictures", MOST_IMAGES, is_optional=True)
    try:
        return tuple(map(AttachedPicture.from_json, raw))
    except SafelightError as error:
        raise fields.wrong("pictures", f"cannot be read: {error}") from None


def _pictures(raw: object, messages: list[StoredMessage], fields: Fields) -> tuple[Picture, ...]:
    """Returns the pictures of messages after checking their hashes; they are not decoded here."""
    if not isinstance(raw, dict):
        raise fields.wrong("pictures", "must be an object")
    shown = {picture.digest: picture for message in messages for picture in message.pictures}
    found = []
    for digest, picture in shown.items():
        try:
            data = b64decode(raw.get(digest, ""), validate=True)
        except (ValueError, TypeError):
            raise fields.wrong("pictures", "must hold texts in base 64") from None
        if data and (len(data) > MOST_BYTES or hashlib.sha256(data).hexdigest() != digest):
            raise fields.wrong("pictures", "holds a different picture than it says")
        if data:
            found.append(Picture(digest, data, picture.width, picture.height))
    return tuple(found)


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
