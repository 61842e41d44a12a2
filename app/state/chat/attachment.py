"""A text file that goes with a prompt, and how the two become one text. Knows neither Qt nor the disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST_FENCE = 3


@dataclass(frozen=True)
class Attachment:
    """``name`` is the file's, without its folder; lines in ``text`` end with a line feed."""

    name: str
    text: str

    @property
    def size(self) -> int:
        """Bytes of the text in UTF-8, which is what the model reads; a file in UTF-16 is larger on the disk."""
        return len(self.text.encode("utf-8", "replace"))


def fence_for(text: str) -> str:
    """Backticks that open and close a block around a text; one more than any run of them in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(SHORTEST_FENCE, longest + 1)


def with_attachments(prompt: str, attachments: Sequence[Attachment]) -> str:
    """What the model reads: each file under its name between fences, then the prompt."""
    parts = []
    for attachment in attachments:
        fence = fence_for(attachment.text)
        _, dot, ending = attachment.name.rpartition(".")
        language = ending if dot and ending.isascii() and ending.isalnum() else ""
        body = attachment.text.removesuffix("\n")
        parts.append(f"File: {attachment.name}\n\n{fence}{language}\n{body}\n{fence}")
    if prompt or not parts:
        parts.append(prompt)
    return "\n\n".join(parts)
