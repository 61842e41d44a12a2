"""A conversation to a file and back: our JSON with the whole tree, Markdown and HTML of the path on show.

``to_json`` and ``from_json`` are each other's inverse, up to identities.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from app.library.checks import Fields
from app.library.errors import LibraryError
from app.library.library import Library
from app.library.pages import to_html, to_markdown
from app.library.records import ROLES, STATUSES, UNFINISHED, StoredMessage, Summary, Whole
from app.library.rows import storable
from app.state.attachment import Attachment

FORMAT = "safelight-conversation"
VERSION = 1
LARGEST_FILE = 256 * 2**20  # bytes


def export(library: Library, conversation: int, format: str, path: Path) -> None:
    """Write a conversation to a file, as ``markdown``, ``json`` or ``html``. Raises ``LibraryError``."""
    write_file(path, library.whole(conversation), format)


def bring_in(library: Library, path: Path) -> int:
    """Add a conversation from an exported JSON file, all of it or nothing; returns its identity.

    Raises:
        LibraryError: the file is another program's, damaged or from a newer Safelight, or cannot be stored.
    """
    return library.take(read_file(path))


def to_json(whole: Whole) -> str:
    """All of a conversation. Messages are numbered from 1 and know their parent's number."""
    summary = whole.summary
    numbers: dict[int | None, int | None] = {None: None}
    numbers |= {message.id: place for place, message in enumerate(whole.messages, start=1)}
    raw = {
        "format": FORMAT,
        "version": VERSION,
        "title": summary.title,
        "created": summary.created,
        "updated": summary.updated,
        "pinned": summary.pinned,
        "system_prompt": summary.system_prompt,
        "preset": summary.preset,
        "model": summary.model,
        "messages": [
            {
                "id": numbers[message.id],
                "parent": numbers[message.parent],
                "role": message.role,
                "status": "stopped" if message.status in UNFINISHED else message.status,
                "shown": message.shown,
                "created": message.created,
                "content": message.content,
                "thinking": message.thinking,
                "model": message.model,
                "seed": message.seed,
                "settings": message.settings,
                "figures": message.figures,
                "error": message.error,
                "attachments": [asdict(file) for file in message.attachments],
            }
            for message in whole.messages
        ],
    }
    return json.dumps(raw, ensure_ascii=False, indent=2) + "\n"


def from_json(text: str, name: str = "this file") -> Whole:
    """Read what ``to_json`` wrote, field by field.

    Raises:
        LibraryError: it is another program's, damaged, or from a newer Safelight; names what is wrong.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise LibraryError(f"{name} is no JSON. Choose a conversation that Safelight exported as JSON") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise LibraryError(f"{name} is no conversation of Safelight's. Choose one that it exported as JSON")
    version = raw.get("version")
    if type(version) is int and version > VERSION:
        raise LibraryError(f"{name} is from a newer Safelight. Update Safelight to import it")
    fields = Fields(raw, name)
    fields.one_of("version", (VERSION,))
    summary = Summary(
        0,
        fields.text("title"),
        fields.time("created"),
        fields.time("updated"),
        fields.truth("pinned"),
        fields.text("system_prompt"),
        fields.text("preset"),
        fields.text("model"),
    )
    messages: list[StoredMessage] = []
    known: set[int] = set()
    for place, item in enumerate(fields.items("messages"), start=1):
        message = _message(Fields(item, f"{name}, message {place}"), known)
        known.add(message.id)
        messages.append(message)
    return Whole(summary, tuple(messages))


def _message(fields: Fields, known: set[int]) -> StoredMessage:
    id = fields.whole("id")
    if id in known:
        raise fields.wrong("id", "is used twice")
    parent = fields.whole_or_none("parent")
    if parent is not None and parent not in known:
        raise fields.wrong("parent", "is no message before it")
    return StoredMessage(
        parent=parent,
        role=fields.one_of("role", ROLES),
        content=fields.text("content"),
        thinking=fields.text("thinking"),
        status=fields.one_of("status", [status for status in STATUSES if status not in UNFINISHED]),
        model=fields.text("model"),
        seed=fields.whole_or_none("seed"),
        settings=fields.json_text("settings"),
        figures=fields.json_text("figures"),
        error=fields.text("error"),
        attachments=tuple(
            Attachment(file.text("name"), file.text("text"))
            for file in (Fields(item, f"{fields.place}, attachment") for item in fields.items("attachments"))
        ),
        id=id,
        created=fields.time("created"),
        shown=fields.truth("shown"),
    )


def read_file(path: Path) -> Whole:
    """A conversation from an exported JSON file. Raises ``LibraryError``."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise LibraryError(f"{path.name} is larger than any conversation. Choose a file that Safelight exported")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise LibraryError(f"{path.name} is no text. Choose a conversation that Safelight exported as JSON") from None
    except OSError as fault:
        raise LibraryError(f"{path} cannot be read ({fault.strerror}). Choose another file") from fault
    return from_json(text, path.name)


def write_file(path: Path, whole: Whole, format: str) -> None:
    """Write an export; a file of that name is replaced once all is written. Raises ``LibraryError``."""
    text = storable(WRITERS[format](whole))
    try:
        handle, unfinished = tempfile.mkstemp(prefix=".safelight-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            Path(unfinished).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(unfinished).unlink()
            raise
    except OSError as fault:
        raise LibraryError(
            f"{path} cannot be written ({fault.strerror}). Free some space or choose another place"
        ) from fault


WRITERS: dict[str, Callable[[Whole], str]] = {"markdown": to_markdown, "json": to_json, "html": to_html}
