"""What the library keeps, as plain data. Knows no storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from app.state.chat.attachment import Attachment

Role = Literal["user", "assistant"]
Status = Literal["waiting", "developing", "done", "stopped", "failed"]

ROLES: tuple[Role, ...] = get_args(Role)
STATUSES: tuple[Status, ...] = get_args(Status)
UNFINISHED: tuple[Status, ...] = ("waiting", "developing")

LATEST = 253402300799.0  # the last second of the year 9999
LARGEST_ID = 2**31 - 1  # what a signal of Qt carries
LARGEST_SEED = 2**63 - 1  # SQLite's largest whole number
LONGEST_NAME = 1_000  # characters of a title, of a model's, a preset's and a file's name
LONGEST_TEXT = 2 * 2**20  # characters of any other text
LONGEST_DETAILS = 100_000  # characters of settings and of figures, which take a few hundred
MOST_VALUES = 2_000_000  # signs of JSON values in what is parsed as a whole; prose has about one in forty characters


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
