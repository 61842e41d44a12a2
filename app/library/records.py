"""The library's data classes, and their conversion to and from rows of the tables."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, get_args

from app.library.errors import LibraryError
from app.state.chat.attachment import AttachedPicture, Attachment
from app.system.i18n import tr
from engine import SafelightError
from engine.declared import LOCAL, many, plain, read, real, text, whole
from engine.files import parse_json, storable
from engine.pictures import Picture
from engine.text.message import MAX_IMAGES

Role = Literal["user", "assistant"]
Status = Literal["waiting", "developing", "done", "stopped", "failed"]

ROLES: tuple[Role, ...] = get_args(Role)
STATUSES: tuple[Status, ...] = get_args(Status)
UNFINISHED: tuple[Status, ...] = ("waiting", "developing")

LATEST = 253402300799.0  # the last second of the year 9999
LARGEST_ID = 2**31 - 1  # largest int in a Qt signal
LARGEST_SEED = 2**63 - 1  # SQLite's largest whole number
LONGEST_NAME = 1_000  # characters of a title, and of a model's, a preset's or a file's name
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
LONGEST_TEXT = 2 * 2**20  # characters of any other text
ROUNDS = "rounds"  # the key of the calls of tools in a message's settings
ORIGIN = "origin"  # in those of an imported conversation's first message: the program, and the id there
LONGEST_DETAILS = 100_000  # characters of settings and of figures, which take a few hundred
MAX_VALUES = 2_000_000  # commas and opening brackets in a parsed text; prose has about 1 per 40 characters
MAX_ATTACHMENTS = 100  # per message; the composer takes ten


def details_of(text: str, name: str) -> dict[str, Any]:
    """Parses the ``settings`` or ``figures`` of a message; returns an empty dict if there are none.

    Raises:
        SafelightError: the text is not a JSON object, or too long.
    """
    if len(text) > LONGEST_DETAILS:
        raise LibraryError(f"{name} is longer than {LONGEST_DETAILS:,} characters")
    raw = parse_json(text, name) if text else {}
    if not isinstance(raw, dict):
        raise LibraryError(f"{name} is not a JSON object")
    return raw


Name = Annotated[str, text(LONGEST_NAME)]
Text = Annotated[str, text(LONGEST_TEXT)]
Number = Annotated[int | None, whole(0, LARGEST_SEED)]
Time = Annotated[float, real(0, LATEST)]
Details = Annotated[str, lambda name, value: details_of(value, name)]  # a JSON object, or empty


@dataclass(frozen=True)
class Summary:
    """A conversation without its messages. Times are seconds since 1970."""

    id: int
    title: Name
    created: Time
    updated: Time  # when a message was added last
    pinned: bool = False
    system_prompt: Text = ""
    preset: Name = ""
    model: Name = ""
    snippet: str = field(default="", metadata=LOCAL)  # excerpt of the message in which a search found something
    found_message: int | None = field(default=None, metadata=LOCAL)  # its id


@dataclass(frozen=True)
class NewMessage:
    """A message to be stored. ``settings`` and ``figures`` are JSON that the library does not interpret."""

    parent: Number  # id of the message it answers or follows; None at the beginning of a conversation
    role: Role
    content: Text = ""
    thinking: Text = ""
    status: Status = "done"
    model: Name = ""
    seed: Number = None
    settings: Details = ""
    figures: Details = ""
    error: Text = ""
    attachments: Annotated[tuple[Attachment, ...], many(MAX_ATTACHMENTS)] = ()
    pictures: Annotated[tuple[AttachedPicture, ...], many(MAX_IMAGES)] = ()


@dataclass(frozen=True)
class StoredMessage(NewMessage):
    """A message of the library. Among messages with the same parent exactly one is ``shown``."""

    id: Annotated[int, whole(0, LARGEST_SEED)] = 0
    conversation: int = field(default=0, metadata=LOCAL)
    created: Time = 0.0  # seconds since 1970
    shown: bool = True


@dataclass(frozen=True)
class Whole:
    """A conversation with all its messages, oldest first, for export, copying and import."""

    summary: Summary
    messages: tuple[StoredMessage, ...]
    pictures: tuple[Picture, ...] = ()  # those that the messages show, each once; without missing ones


SUMMARY_COLUMNS = "id, title, created, updated, pinned, system_prompt, preset, model"
WRITTEN_COLUMNS = (
    "conversation, parent, created, role, status, seed, model, settings, figures, error, content, thinking, attachments"
)
MESSAGE_COLUMNS = f"{WRITTEN_COLUMNS}, id"
_MESSAGE_NAMES = MESSAGE_COLUMNS.split(", ")


def summary_of(row: Sequence[Any], snippet: str = "", found_message: int | None = None) -> Summary:
    """Returns the summary in a row of ``SUMMARY_COLUMNS``."""
    id, title, created, updated, pinned, system_prompt, preset, model = row
    title, pinned = title[:LONGEST_NAME], bool(pinned)
    return Summary(id, title, created, updated, pinned, system_prompt, preset, model, snippet, found_message)


def message_of(row: Sequence[Any]) -> StoredMessage:
    """Returns the message in a row of ``MESSAGE_COLUMNS``, which does not say if it is shown."""
    values = dict(zip(_MESSAGE_NAMES, row, strict=True))
    values["attachments"], values["pictures"] = attached_of(values["attachments"])
    return StoredMessage(**values)


def attached_of(text: str) -> tuple[tuple[Attachment, ...], tuple[AttachedPicture, ...]]:
    """Parses a message's attachments: files as pairs of name and text, pictures as objects.

    A text that cannot be parsed becomes one file, so that nothing is lost.
    """
    if not text:
        return (), ()
    try:
        raw = parse_json(text, "attachments", values=MAX_VALUES)
        files = tuple(Attachment(name, content) for name, content in (one for one in raw if not isinstance(one, dict)))
        pictures = tuple(read(AttachedPicture, one, "a picture") for one in raw if isinstance(one, dict))
        if all(isinstance(file.name, str) and isinstance(file.text, str) for file in files):
            return files, pictures
    except (SafelightError, TypeError, ValueError):
        pass
    return (Attachment(tr("damaged attachments"), text),), ()


def named_pictures(connection: sqlite3.Connection, condition: str = "1", values: Sequence[int] = ()) -> set[str]:
    """Returns the digests of all pictures in messages under an SQL condition, including removed messages."""
    rows = connection.execute(
        f"SELECT attachments FROM messages WHERE ({condition}) AND attachments LIKE '%\"digest\"%'", values
    )
    return {digest for (text,) in rows for digest in _DIGEST.findall(text)}


def insert_message(connection: sqlite3.Connection, conversation: int, created: float, message: NewMessage) -> int:
    """Writes one message; returns its id."""
    attached = [*([file.name, file.text] for file in message.attachments), *map(plain, message.pictures)]
    values = vars(message) | {"conversation": conversation, "created": created}
    values["attachments"] = json.dumps(attached, ensure_ascii=False) if attached else ""
    return insert_row(connection, "messages", WRITTEN_COLUMNS, values)


def insert_row(connection: sqlite3.Connection, table: str, columns: str, values: Mapping[str, Any]) -> int:
    """Writes one row of the named columns; returns its id."""
    row = [values[name] for name in columns.split(", ")]
    row = [storable(value) if isinstance(value, str) else value for value in row]
    marks = ", ".join("?" * len(row))
    return connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", row).lastrowid or 0


def with_shown(messages: Iterable[StoredMessage], shown_children: dict[int | None, int | None]) -> list[StoredMessage]:
    """Returns messages with their ``shown`` flags set; ``wanted`` maps each parent to its shown child.

    If the wanted child was removed, the next sibling is shown, or else the last one. Messages without an existing
    parent are left out.
    """
    siblings: dict[int | None, list[StoredMessage]] = {}
    reached: set[int | None] = {None}
    for message in messages:  # parents come before their children
        if message.parent in reached:
            reached.add(message.id)
            siblings.setdefault(message.parent, []).append(message)
    marked: list[StoredMessage] = []
    for parent, family in siblings.items():
        ids = [member.id for member in family]
        chosen = shown_children.get(parent) or ids[-1]
        shown = next((id for id in ids if id >= chosen), ids[-1])
        marked += [member if member.id == shown else replace(member, shown=False) for member in family]
    return sorted(marked, key=lambda message: message.id)
