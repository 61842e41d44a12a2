"""Imports what other programs exported, whichever it is; each chat once.

What a form does not say is left empty; what is of a kind unknown here is passed over, never an error.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from app.library.errors import LibraryError
from app.library.foreign import Archive, ForeignChat, ImportReport, pictures_of, whole_of
from app.library.foreign_fields import Json
from app.library.foreign_hosted import read_chatgpt, read_claude
from app.library.foreign_local import read_jan, read_lm_studio, read_open_webui
from app.library.library import Library

Chats = Iterator[ForeignChat | None]
"""The chats of a file; None for one that cannot be read."""


def chats_in(archive: Archive) -> Chats:
    """Yields the chats of an export, of whichever program.

    Raises:
        LibraryError: it has none of a known form, or is damaged.
    """
    threads = [name for name in archive.names if name.endswith("thread.json")]
    if threads:
        yield from (_safely(read_jan, archive, name) for name in threads)
        return
    files = [name for name in archive.names if re.search(r"(conversations?|chats?|export)[^/]*\.json$", name, re.I)]
    has_known = False
    for name in files or [name for name in archive.names if name.endswith(".json")]:
        for item in archive.items(name):
            reader = _reader_of(item)
            if reader is not None:
                has_known = True
                yield _safely(reader, item, name)
    if not has_known:
        raise LibraryError(
            "this file has no chats of a known program. Choose the ZIP or JSON file that ChatGPT, Claude, Open WebUI, "
            "LM Studio or Jan exported"
        )


def move_in(library: Library, paths: Sequence[Path], report: ImportReport) -> ImportReport:
    """Stores the chats of exports, each as a whole; those that were imported before are left as they are.

    Args:
        report: filled while it goes on, for another thread to read.

    Raises:
        LibraryError: a file has none, or is damaged, or the library cannot be written; what was stored stays.
    """
    known = library.origins()
    for path in paths:
        archive = Archive(path)
        for chat in chats_in(archive):
            if chat is None:
                report.unreadable += 1
            elif chat.origin in known:
                report.known += 1
            else:
                pictures, missing = pictures_of(chat, archive)
                whole = whole_of(chat, pictures)
                known.add(chat.origin)
                report.missing_pictures += missing
                if whole is None:
                    report.empty += 1
                else:
                    report.imported.append(library.insert(whole))
    return report


def _safely(read: Callable[..., ForeignChat], *arguments: Any) -> ForeignChat | None:
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError, IndexError):
        return read(*arguments)
    return None


def _reader_of(item: object) -> Callable[[Json, str], ForeignChat] | None:
    match item:
        case {"mapping": dict()}:
            return read_chatgpt
        case {"chat_messages": list()}:
            return read_claude
        case {"chat": {"history": dict()} | {"messages": list()}}:
            return read_open_webui
        case {"messages": [{"versions": list()}, *_]} | {"messages": [], "systemPrompt": str()}:
            return read_lm_studio
    return None
