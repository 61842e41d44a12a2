"""The exception whose message people read: a single line that says what to do."""

from __future__ import annotations

import os
import re
from typing import Any, Self

MAX_ERROR_CHARACTERS = 700
"""Longer messages are cut in the middle: that part quotes somebody's input, and the advice stands at the end."""
MAX_SPOKEN = 200  # characters of an unexpected exception's own message

_REPR = re.compile(r"<[^<>]{1,200} at 0x[0-9A-Fa-f]{1,16}>")  # Python's repr of an object without its own


class Sentence(str):
    """An English message that keeps the pattern it was made from, so that a window can say it in another language.

    ``Sentence("The context has {limit} tokens.", limit=8)`` is the string "The context has 8 tokens.".
    """

    pattern: str
    values: dict[str, object]

    def __new__(cls, pattern: str, /, **values: object) -> Self:
        text = super().__new__(cls, pattern.format(**values) if values else pattern)
        text.pattern, text.values = pattern, values
        return text

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:  # what copy and pickle recreate it from
        return (self.pattern,), self.values


class SafelightError(Exception):
    """An error that the user can mend: a bad file, a bad setting, a prompt that does not fit."""

    def __init__(self, message: str) -> None:
        super().__init__(_one_line(message))


class ClosedError(SafelightError):
    """A repository of a hub asks for an accepted licence and an access token."""


def quoted(value: object, most: int = 60) -> str:
    """Returns a value from outside as it may stand in a message: its ``repr``, of about ``most`` characters at most."""
    text = value if isinstance(value, str) else None
    if text is not None and len(text) > most:
        return f"{text[:most]!r}…"
    try:
        written = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists in lists
        return f"a {type(value).__name__}"
    return written if len(written) <= 2 * most else written[:most] + "…"


def sentence(message: object) -> str:
    """Returns what is said as a sentence that ends."""
    text = str(message)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def spoken(error: BaseException) -> str:
    """Returns an exception's message in one line without a full stop; its type if the message is not written for
    people.

    Only the operating system's reasons and runtime errors are written for people. A ``KeyError`` says the ``repr`` of
    its key, and most others use the program's own names.
    """
    if isinstance(error, SafelightError):
        return str(error).rstrip(".")
    text = ""
    if isinstance(error, OSError):
        text = error.strerror or str(error)
        if error.strerror and isinstance(error.filename, str):
            text = f"{text}: {error.filename}"
    elif isinstance(error, RuntimeError) and not isinstance(error, RecursionError | NotImplementedError):
        text = str(error)
    text = " ".join(_one_line(text).split())[:MAX_SPOKEN].rstrip(".")
    return text or f"an unexpected fault, {type(error).__name__}"


def proxy_error() -> SafelightError:
    """Returns the error that is shown if a proxy that the environment names is none that can be used."""
    named = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") and value
    }
    odd = [name for name, value in named.items() if "://" in value and not value.lower().startswith("http")]
    where = " or ".join(odd or named) or "the system's settings"
    return SafelightError(f"the proxy of {where} cannot be used; give one that begins with http://")


def _one_line(message: str) -> str:
    """Returns a message of readable length, without line breaks and control characters, which a terminal would obey.

    An object's default ``repr`` with its address is removed, as it means nothing to a reader.
    """
    message = _REPR.sub("…", message)
    if len(message) > MAX_ERROR_CHARACTERS:
        half = MAX_ERROR_CHARACTERS // 2
        message = f"{message[:half]} … {message[-half:]}"
    return "".join(sign if sign.isprintable() else " " for sign in message)
