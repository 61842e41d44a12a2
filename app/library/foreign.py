"""Brings in the chats of other programs: what they exported becomes conversations of the library. Knows no Qt.

``foreign_hosted`` and ``foreign_local`` read each program's form as a ``ForeignChat``; here its nodes become turns and
answers.
"""

from __future__ import annotations

import base64
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from app.library.errors import LibraryError
from app.library.records import (
    LONGEST_DETAILS,
    LONGEST_NAME,
    LONGEST_TEXT,
    MAX_ATTACHMENTS,
    ORIGIN,
    ROUNDS,
    StoredMessage,
    Summary,
    Whole,
    with_shown,
)
from app.state.chat.attachment import AttachedPicture, Attachment
from app.state.chat.calls import ToolCall, ToolRound, rounds_to_json
from engine import SafelightError
from engine.files import storable
from engine.pictures import Picture, open_picture
from engine.text.message import MAX_IMAGES

MAX_BYTES = 2 * 2**30  # of a file of chats, unpacked

Side = Literal["user", "assistant", ""]
"""Who speaks; empty for nodes that nobody sees, which their children follow all the same."""


@dataclass
class ForeignNode:
    """A node of another program's tree. Calls with their results stand before its text, those without behind it."""

    parent: str | None
    side: Side
    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()  # id, name, arguments
    results: tuple[tuple[str, str], ...] = ()  # id of the call, or empty for the latest; text
    files: tuple[Attachment, ...] = ()
    pictures: tuple[str, ...] = ()  # names in the archive, or data URLs
    created: float = 0.0
    model: str = ""


@dataclass
class ForeignChat:
    """A conversation as another program exported it; ``current`` is the last node of the path that was shown."""

    origin: str
    title: str
    created: float
    updated: float
    nodes: dict[str, ForeignNode]
    current: str | None = None
    system_prompt: str = ""
    pinned: bool = False


@dataclass
class ImportReport:
    """The result of an import: numbers of chats, and of what could not come with them."""

    imported: list[int] = field(default_factory=list)  # ids in the library
    known: int = 0  # imported before
    empty: int = 0
    unreadable: int = 0
    missing_pictures: int = 0


class Archive:
    """A ZIP file, a JSON file or a folder that another program exported, by the names in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = zipfile.ZipFile(path) if path.is_file() and zipfile.is_zipfile(path) else None
        except (OSError, zipfile.BadZipFile) as error:
            raise LibraryError(f"{path.name} is damaged. Export your chats again") from error
        if self._zip is not None:
            self.names = [info.filename for info in self._zip.infolist() if not info.is_dir()]
        elif path.is_dir():
            self.names = [place.relative_to(path).as_posix() for place in path.rglob("*") if place.is_file()]
        else:
            self.names = [path.name]

    def bytes(self, name: str) -> bytes:
        """Returns a file. Raises ``LibraryError`` if it is damaged, or larger than may be read."""
        try:
            if self._zip is not None:
                with self._zip.open(name) as file:
                    data = file.read(MAX_BYTES + 1)
            else:
                with (self._path / name if self._path.is_dir() else self._path).open("rb") as file:
                    data = file.read(MAX_BYTES + 1)
        except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
            raise LibraryError(f"{name} cannot be read from {self._path.name}. Export your chats again") from error
        if len(data) > MAX_BYTES:
            raise LibraryError(f"{name} has more than {MAX_BYTES // 2**30} GB. Export fewer chats at a time")
        return data

    def items(self, name: str) -> Iterator[Any]:
        """Yields the items of a JSON file, one by one if it is an array, since it may be very large.

        Raises:
            LibraryError: it is no JSON.
        """
        text = self.bytes(name).decode("utf-8-sig", "replace")
        decoder, place = json.JSONDecoder(), _next(text, 0)
        is_array = text.startswith("[", place)
        place = _next(text, place + is_array)
        while place < len(text) and not (is_array and text[place] == "]"):
            try:
                item, place = decoder.raw_decode(text, place)
            except (ValueError, RecursionError) as error:
                raise LibraryError(f"{name} is no JSON, or is damaged. Export your chats again") from error
            yield item
            place = _next(text, place)


def _next(text: str, place: int) -> int:
    """Returns the place of the next sign that is neither space nor comma."""
    while place < len(text) and text[place] in " \t\r\n,":
        place += 1
    return place


def whole_of(chat: ForeignChat, pictures: Mapping[str, Picture]) -> Whole | None:
    """Returns a conversation; None if nobody says anything in it.

    A message is all nodes of one side in a row. Where a program branched within one, each branch has its beginning.

    Args:
        pictures: those that could be read, by the names in the nodes.
    """
    children: dict[str | None, list[str]] = defaultdict(list)
    for id, node in chat.nodes.items():
        children[node.parent if node.parent in chat.nodes and node.parent != id else None].append(id)
    on_path = set[str]()
    at = chat.current
    while at in chat.nodes and at not in on_path:
        on_path.add(at)
        at = chat.nodes[at].parent
    messages, shown = list[StoredMessage](), dict[int | None, int | None]()
    emitted, seen = dict[str, int](), set[str]()

    def emit(draft: tuple[ForeignNode, ...], last: str, parent: int | None, follows: str) -> int:
        """Adds the message that ends with node ``last``, once, and shows it if ``follows`` is on the shown path."""
        if last not in emitted:
            emitted[last] = _add(messages, draft, parent, pictures)
        if follows in on_path:
            shown[parent] = emitted[last]
        return emitted[last]

    # Nodes to visit, each with its message's parent, the nodes of its side before it, and the last of these.
    pending: list[tuple[str, int | None, tuple[ForeignNode, ...], str]] = [(id, None, (), "") for id in children[None]]
    pending.reverse()
    while pending:  # a loop, since a chat may be deeper than Python's stack
        id, parent, draft, last = pending.pop()
        if id in seen:  # a circle
            continue
        seen.add(id)
        node = chat.nodes[id]
        if node.side and draft and draft[0].side != node.side:
            parent, draft = emit(draft, last, parent, id), ()
        if node.side:
            if node.side == "assistant" and parent is None and not draft:  # a greeting: answers follow prompts
                parent = _add(messages, (ForeignNode(None, "user"),), None, {})
            draft, last = (*draft, node), id
        if children[id]:
            pending += [(child, parent, draft, last) for child in children[id][::-1]]
        elif draft:
            emit(draft, last, parent, id)
    if not any(message.content or message.pictures or message.attachments for message in messages):
        return None
    times = [message.created for message in messages if message.created]
    created = chat.created or min(times, default=0.0)
    messages[0] = replace(messages[0], settings=json.dumps({ORIGIN: chat.origin}))
    title = " ".join(chat.title.split())[:LONGEST_NAME] or " ".join(messages[0].content[:80].split())
    system_prompt = storable(chat.system_prompt[:LONGEST_TEXT])
    updated = chat.updated or max(times, default=created)
    summary = Summary(0, storable(title), created, updated, chat.pinned, system_prompt)
    kept = {picture.digest for message in messages for picture in message.pictures}
    return Whole(
        summary,
        tuple(with_shown(messages, shown)),
        tuple({picture.digest: picture for picture in pictures.values() if picture.digest in kept}.values()),
    )


def _add(
    messages: list[StoredMessage], nodes: Sequence[ForeignNode], parent: int | None, pictures: Mapping[str, Picture]
) -> int:
    """Appends a message of nodes of one side; returns its id."""
    id = len(messages) + 1
    rounds, text, thinking = _rounds(nodes)
    names = [name for node in nodes for name in node.pictures if name in pictures][:MAX_IMAGES]
    seen = (AttachedPicture("", pictures[name].digest, pictures[name].width, pictures[name].height) for name in names)
    messages.append(
        StoredMessage(
            parent,
            "user" if nodes[0].side == "user" else "assistant",
            storable(text[:LONGEST_TEXT]),
            storable(thinking[:LONGEST_TEXT]),
            model=next((node.model for node in reversed(nodes) if node.model), "")[:LONGEST_NAME],
            settings=json.dumps({ROUNDS: rounds_to_json(rounds, LONGEST_DETAILS - 1000)}) if rounds else "",
            attachments=tuple(file for node in nodes for file in node.files)[:MAX_ATTACHMENTS],
            pictures=tuple({picture.digest: picture for picture in seen}.values()),
            id=id,
            created=next((node.created for node in nodes if node.created), 0.0),
        )
    )
    return id


def _rounds(nodes: Iterable[ForeignNode]) -> tuple[list[ToolRound], str, str]:
    """Returns the rounds of calls of a message, and the text and the thinking after them."""
    rounds, texts, thoughts = list[ToolRound](), list[str](), list[str]()
    for node in nodes:
        is_after = bool(node.calls and node.results)
        texts += [node.text] if node.text.strip() and not is_after else []
        thoughts += [node.thinking] if node.thinking.strip() else []
        if node.calls:
            calls = [ToolCall(id, name, arguments) for id, name, arguments in node.calls]
            rounds.append(ToolRound("\n\n".join(texts), "\n\n".join(thoughts), calls))
            texts, thoughts = [], []
        for id, result in node.results:
            open_calls = [call for one in rounds for call in one.calls if not call.has_ended]
            call = next((call for call in open_calls if call.id == id), open_calls[-1] if open_calls else None)
            if call is not None:
                call.end("done", result)
        texts += [node.text] if node.text.strip() and is_after else []
    return rounds, "\n\n".join(texts), "\n\n".join(thoughts)


def pictures_of(chat: ForeignChat, archive: Archive) -> tuple[dict[str, Picture], int]:
    """Returns the pictures of a chat that can be read, and the number of the others."""
    read, missing = dict[str, Picture](), 0
    for name in dict.fromkeys(name for node in chat.nodes.values() for name in node.pictures):
        try:
            if name.startswith("data:"):
                data = base64.b64decode(name.partition(",")[2])
            else:  # the file's name begins with the id
                place = next(one for one in archive.names if one.rpartition("/")[2].startswith(name))
                data = archive.bytes(place)
            read[name] = open_picture(data)
        except (SafelightError, StopIteration, ValueError):
            missing += 1
    return read, missing
