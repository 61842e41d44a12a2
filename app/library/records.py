"""What the library keeps, as plain data. Knows no storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from app.state.attachment import Attachment

Role = Literal["user", "assistant"]
Status = Literal["waiting", "developing", "done", "stopped", "failed"]

ROLES: tuple[Role, ...] = get_args(Role)
STATUSES: tuple[Status, ...] = get_args(Status)
UNFINISHED: tuple[Status, ...] = ("waiting", "developing")


@dataclass(frozen=True)
class Summary:
    """A conversation without its messages. Times are seconds since 1970."""

    id: int
    title: str
    created: float
    updated: float  # when a message was added last
    pinned: bool = False
    system_prompt: str = ""
    preset: str = ""
    model: str = ""
    snippet: str = ""  # where a search found something in a message


@dataclass(frozen=True)
class NewMessage:
    """A message to be stored. ``settings`` and ``figures`` are JSON that the library does not look into."""

    parent: int | None  # what it answers or follows; None at the beginning of a conversation
    role: Role
    content: str = ""
    thinking: str = ""
    status: Status = "done"
    model: str = ""
    seed: int | None = None
    settings: str = ""
    figures: str = ""
    error: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class StoredMessage(NewMessage):
    """A message of the library. Of those with one parent exactly one is ``shown``."""

    id: int = 0
    conversation: int = 0
    created: float = 0.0  # seconds since 1970
    shown: bool = True


@dataclass(frozen=True)
class Whole:
    """A conversation with all its messages, oldest first, as it is exported, copied and imported."""

    summary: Summary
    messages: tuple[StoredMessage, ...]
