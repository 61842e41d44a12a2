"""Fields of other programs' exports, read without an error: what is of another kind is empty."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime
from typing import Any

from app.state.chat.attachment import LONGEST_NAME, MAX_TEXT, Attachment

Json = dict[str, Any]


def seconds(value: object) -> float:
    """Returns seconds since 1970, of a number of seconds, milliseconds or nanoseconds, or of ISO 8601; 0 if unknown."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            return max(0.0, datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp())
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    while value > 1e11:  # of the year 5138 in seconds
        value /= 1000
    return float(value)


def attached(name: str, text: str = "") -> Attachment:
    """Returns a file of a prompt; exports often have its name alone."""
    return Attachment(name[:LONGEST_NAME] or "file", text[:MAX_TEXT])


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def object_of(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def arguments_of(text: str) -> Json:
    with contextlib.suppress(ValueError):
        arguments = json.loads(text)
        if isinstance(arguments, dict):
            return arguments
    return {"input": text}


def plain_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(text_of(part.get("text")) for part in content if isinstance(part, dict))
    return text_of(content)
