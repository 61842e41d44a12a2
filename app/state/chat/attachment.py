"""Attachments of a prompt: text files, which are joined with its text, and pictures. Knows neither Qt nor the disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.state.chat.fences import fenced
from engine.declared import text
from engine.text.message import Digest, Side

LONGEST_NAME = 1_000  # characters of a file name
Name = Annotated[str, text(LONGEST_NAME)]
MAX_TEXT = 2 * 2**20  # characters of a file
Text = Annotated[str, text(MAX_TEXT)]
_ATTACHED = re.compile(rf"File: ([^\n]{{1,{LONGEST_NAME}}})\n\n(`{{3,}})\w*\n(?:.*?\n)?\2(?:\n\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Attachment:
    """A text file. ``name`` is its name without the folder; lines in ``text`` end with a line feed."""

    name: Name
    text: Text

    @property
    def size(self) -> int:
        """Bytes of the text in UTF-8, as the model reads it; a file in UTF-16 is larger on the disk."""
        return len(self.text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class AttachedPicture:
    """A picture, named by its digest; its bytes are in the library's ``PictureStore``. Sizes are in pixels."""

    name: Name  # of its file, without the folder; empty if it came from the clipboard
    digest: Digest
    width: Side
    height: Side

    @property
    def image(self) -> dict[str, Any]:
        """The picture as an entry of a message's "images", placed before its text."""
        return {"digest": self.digest, "width": self.width, "height": self.height, "at": 0}


def apart(text: str) -> tuple[list[str], str]:
    """Returns the names of the files at the beginning of a text that ``with_attachments`` made, and the prompt after
    them.
    """
    names, at = [], 0
    while (match := _ATTACHED.match(text, at)) is not None:
        names.append(match[1])
        at = match.end()
    return names, text[at:]


def with_attachments(prompt: str, attachments: Sequence[Attachment]) -> str:
    """Returns the text for the model: each file under its name between fences, then the prompt."""
    parts = []
    for attachment in attachments:
        _, dot, ending = attachment.name.rpartition(".")
        language = ending if dot and ending.isascii() and ending.isalnum() else ""
        body = attachment.text.removesuffix("\n")
        parts.append(f"File: {attachment.name}\n\n{fenced(body, language)}")
    if prompt or not parts:
        parts.append(prompt)
    return "\n\n".join(parts)
