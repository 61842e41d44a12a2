"""Turns the rows of a damaged library into conversations: repairs wrong values, leaves out what is no valid row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.library.records import (
    LARGEST_SEED,
    LATEST,
    ROLES,
    STATUSES,
    Role,
    StoredMessage,
    Summary,
    Whole,
    attached_of,
    with_shown,
)
from app.system.i18n import tr

Row = Mapping[str, object]
TEXTS = ("content", "thinking", "model", "settings", "figures", "error")  # of a message


@dataclass(frozen=True)
class SalvagedRows:
    """The rows that were read from the two tables, in the order of ids."""

    conversations: tuple[Row, ...] = ()
    messages: tuple[Row, ...] = ()


def found(conversations: Iterable[Row], messages: Iterable[Row]) -> SalvagedRows:
    """Returns the rows that look like conversations or messages; another program's file may have others."""
    return SalvagedRows(tuple(filter(_is_conversation, conversations)), tuple(filter(_is_message, messages)))


def mended(rows: SalvagedRows) -> tuple[Whole, ...]:
    """Returns the conversations that were not deleted, latest first.

    Messages whose conversation is lost get a new conversation. A message whose parent is lost follows the last message
    of the other role before it.
    """
    deleted = {row["id"] for row in rows.conversations if _is_number(row["deleted"])}
    summaries = {_id(row["id"]): _summary(row) for row in rows.conversations if row["id"] not in deleted}
    wanted: dict[int | None, int | None] = {_id(row["id"]): _place(row["child_shown"]) for row in rows.messages}
    first = {_id(row["id"]): _place(row["child_shown"]) for row in rows.conversations}
    messages: dict[int, list[StoredMessage]] = {}
    for row in rows.messages:
        conversation = _id(row["conversation"])
        if row["conversation"] in deleted or isinstance(row["removed"], int):
            continue
        if conversation not in summaries:
            created = _time(row["created"], 0.0)
            summaries[conversation] = Summary(0, tr("Saved from a damaged library"), created, created)
        messages.setdefault(conversation, []).append(_message(row, summaries[conversation].created))
    wholes = [
        Whole(summary, tuple(with_shown(_joined(messages.get(id, [])), wanted | {None: first.get(id)})))
        for id, summary in summaries.items()
    ]
    return tuple(sorted(wholes, key=lambda whole: whole.summary.updated, reverse=True))


def _is_conversation(row: Row) -> bool:
    return isinstance(row["title"], (str, bytes)) and (_is_time(row["created"]) or _is_time(row["updated"]))


def _is_message(row: Row) -> bool:
    return (row["role"] in ROLES or row["status"] in STATUSES) and isinstance(row["content"], (str, bytes))


def _summary(row: Row) -> Summary:
    created = _time(row["created"], _time(row["updated"], 0.0))
    texts: dict[str, Any] = {name: _text(row[name]) for name in ("title", "system_prompt", "preset", "model")}
    updated = _time(row["updated"], created)
    return Summary(_id(row["id"]), created=created, updated=updated, pinned=row["pinned"] == 1, **texts)


def _message(row: Row, created: float) -> StoredMessage:
    parent, role, seed = row["parent"], row["role"], row["seed"]
    attachments, pictures = attached_of(_text(row["attachments"]))
    texts: dict[str, Any] = {name: _text(row[name]) for name in TEXTS}
    return StoredMessage(
        parent=_place(parent),
        role=role if role in ROLES else "user" if parent is None else "assistant",
        status=row["status"] if row["status"] in STATUSES else "stopped",
        seed=seed if isinstance(seed, int) and 0 <= seed <= LARGEST_SEED else None,
        attachments=attachments,
        pictures=pictures,
        **texts,
        id=_id(row["id"]),
        created=_time(row["created"], created),
    )


def _joined(messages: list[StoredMessage]) -> list[StoredMessage]:
    """Returns the messages, each with an existing parent that comes before it."""
    known: set[int] = set()
    last: dict[Role, int] = {}
    joined: list[StoredMessage] = []
    for message in messages:
        if message.parent is not None and message.parent not in known:
            message = replace(message, parent=last.get("user" if message.role == "assistant" else "assistant"))
        known.add(message.id)
        last[message.role] = message.id
        joined.append(message)
    return joined


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else "" if value is None else str(value)


def _id(value: object) -> int:
    return value if isinstance(value, int) else 0


def _place(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 <= value <= LATEST


def _time(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= LATEST else otherwise
