"""A server as the fields of a form show it: its command line, and pairs of a name and a value, one a line. No Qt."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable

from app.system.i18n import tr
from engine import SafelightError
from engine.tools.declared import Pairs

IS_WINDOWS = sys.platform == "win32"


def split_command(line: str, *, is_windows: bool = IS_WINDOWS) -> tuple[str, ...]:
    """Splits a command line as a shell does; on Windows a backslash is a sign like any other.

    Raises:
        SafelightError: a quotation mark is not closed.
    """
    words = shlex.shlex(line, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.commenters = ""
    if is_windows:
        words.escape = ""
    try:
        return tuple(words)
    except ValueError:
        raise SafelightError(tr("A quotation mark in the command line is not closed.")) from None


def join_command(parts: Iterable[str], *, is_windows: bool = IS_WINDOWS) -> str:
    """Returns the command line that ``split_command`` splits into these parts."""
    if not is_windows:
        return shlex.join(parts)
    return " ".join(_quoted(part) for part in parts)


def _quoted(part: str) -> str:
    if part and not any(sign.isspace() or sign in "'\"" for sign in part):
        return part
    return '"' + part.replace('"', '"\'"\'"') + '"'


def split_pairs(text: str, sign: str, what: str) -> Pairs:
    """Reads pairs, one a line; empty lines count for nothing.

    Args:
        sign: what separates name and value, "=" or ":".
        what: the pairs, for messages.

    Raises:
        SafelightError: a line has no such sign, or a name stands twice.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        name, separator, value = line.partition(sign)
        name, value = name.strip(), value.strip() if sign == ":" else value
        if not separator or not name:
            raise SafelightError(
                tr("Line {number} of the {what} needs a name, then {sign}, then a value.", number=number, what=what,
                   sign=sign)
            )  # fmt: skip
        if name in found:
            raise SafelightError(tr("The {what} name {name} twice.", what=what, name=name[:60]))
        found[name] = value
    return tuple(found.items())


def join_pairs(pairs: Pairs, sign: str) -> str:
    """Returns the lines that ``split_pairs`` reads."""
    return "\n".join(f"{name}{sign}{' ' if sign == ':' else ''}{value}" for name, value in pairs)
