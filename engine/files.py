"""File access: outside files are read within bounds, our own are written whole or not at all. Knows no format but JSON.

Every file that a stranger may have made is read through this module, so that its size, depth, numbers and file type
are checked before other code sees it. Every file that must be whole is written through ``replacing``. Exceptions, each
with a reason at its place: the SQLite library, traces and logs, which grow in place, and parts of a download, which
outlive the process.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from engine import windows
from engine.errors import SafelightError, quoted

JSON_BYTES = 8 * 2**20  # a config is a few kB; the index of a checkpoint with 40 000 tensors about 4 MB
JSON_VALUES = 300_000  # a value takes up to 72 bytes once it is parsed, and as little as 2 in the file
JSON_DEPTH = 32
JSON_DIGITS = 40  # published tokenizer configs write 10^30 for "no limit"
MAX_NAMES = 5000  # entries of a folder that are looked at

_FEW_CHARACTERS = 10_000  # characters of JSON that make few objects
_SURROGATE = re.compile("[\ud800-\udfff]")
_BARE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


def open_regular(path: Path, *, follow_links: bool = True) -> BinaryIO:
    """Opens a file for reading, unbuffered, if it is a regular one; a pipe or a device could block for ever.

    Raises:
        SafelightError: it is no regular file, or a link where links are not followed.
        OSError: it is missing or cannot be read. A NUL in the path raises OSError, too, not ValueError.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    place = windows.reachable(path)
    if not follow_links:
        flags |= getattr(os, "O_NOFOLLOW", 0)
        if not hasattr(os, "O_NOFOLLOW") and place.is_symlink():  # Windows
            raise SafelightError(f"{path} is a link; choose the file itself")
    try:
        handle = os.open(place, flags)
    except ValueError as error:  # NUL in the name
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SafelightError(f"{path} is not a regular file; choose another one")
        return open(handle, "rb", buffering=0)
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: Path, most: int, *, follow_links: bool = True) -> bytes:
    """Returns a whole file of at most ``most`` bytes.

    Raises:
        SafelightError: it is larger, or no regular file.
        OSError: it is missing or cannot be read.
    """
    with open_regular(path, follow_links=follow_links) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > most else read_up_to(file, most + 1)
    if size > most or len(data) > most:
        raise SafelightError(f"{path} is larger than {most:,} bytes, the most that is read of such a file")
    return data


def read_up_to(file: BinaryIO, most: int) -> bytes:
    """Returns the next ``most`` bytes of an unbuffered file, or fewer at its end."""
    parts = []
    while most > 0 and (part := file.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def read_text(path: Path, most: int = JSON_BYTES) -> str:
    """Returns the text of a UTF-8 file of at most ``most`` bytes; a byte order mark is dropped.

    Raises:
        SafelightError: it is missing, larger, no regular file, or not UTF-8.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except FileNotFoundError:
        raise SafelightError(f"{path} is missing") from None
    except UnicodeDecodeError as error:
        raise SafelightError(f"{path} is damaged: it is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from error


def read_json(
    path: Path, *, most: int = JSON_BYTES, depth: int = JSON_DEPTH, values: int = JSON_VALUES
) -> dict[str, Any]:
    """Parses a JSON object from a file; bounds as in ``parse_json``.

    Raises:
        SafelightError: the file cannot be read, is out of bounds or does not hold a JSON object.
    """
    raw = parse_json(read_text(path, most), str(path), depth=depth, values=values)
    if not isinstance(raw, dict):
        raise SafelightError(f"{path} does not hold a JSON object")
    return raw


def parse_json(
    text: str, name: str, *, depth: int = JSON_DEPTH, values: int = JSON_VALUES, surrogates: bool = False
) -> Any:
    """Parses JSON from outside; the result is safe to walk, compare, store and print.

    Args:
        text: the JSON. The caller bounds its length, before it is read.
        name: what it is, for messages: usually a path.
        depth: how many objects and lists may be nested.
        values: how many objects, lists and members there may be, counted by their signs in the text, strings included.
        surrogates: half characters are let through; the caller replaces them.

    Raises:
        SafelightError: it is no JSON, is deeper or has more values, or holds NaN, an infinite number, a whole number of
            more than ``JSON_DIGITS`` digits, or half a character (a lone surrogate).
    """
    if count_signs(text) > values:
        raise SafelightError(f"{name} holds more than {values:,} values, the most that are read")
    try:
        with _uncollected() if len(text) > _FEW_CHARACTERS else contextlib.nullcontext():
            raw = _DECODER.decode(text)
    except RecursionError:
        raise SafelightError(f"{name} is nested deeper than {depth} levels") from None
    except (ValueError, MemoryError) as error:
        raise SafelightError(f"{name} cannot be read as JSON: {error}") from error
    is_shallow = text.count("[") + text.count("{") <= depth
    if not (is_shallow and (surrogates or (text.isascii() and "\\u" not in text))):
        _check(raw, name, depth, surrogates)
    return raw


def storable(text: str) -> str:
    """Returns a text without lone surrogates, which JSON and tokenizers can produce but no file can store."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@contextmanager
def _uncollected() -> Iterator[None]:
    """Switches Python's cycle collector off: JSON has no cycles, and searching for them takes longer than parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def count_signs(text: str) -> int:
    """Counts commas and opening brackets: at least the number of values of a JSON text, minus one."""
    return text.count(",") + text.count("[") + text.count("{")


def _whole(digits: str) -> int:
    if len(digits) > JSON_DIGITS + 1:
        raise ValueError(f"a whole number has more than {JSON_DIGITS} digits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {quoted(digits, 20)} is too large")
    return number


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not a number")


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_finite, parse_constant=_refuse)


def _check(raw: Any, name: str, depth: int, surrogates: bool) -> None:
    """Checks that nothing is nested too deep, and that all text can be encoded."""
    level: list[Any] = [raw]
    for _ in range(depth + 1):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value)
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
            elif not surrogates and isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
                raise SafelightError(f"{name} cannot be read as JSON: it holds half a character")
        if not inner:
            return
        level = inner
    raise SafelightError(f"{name} is nested deeper than {depth} levels")


def listed(folder: Path) -> list[str]:
    """Returns the printable names in a folder, at most ``MAX_NAMES``; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [each.name for each in itertools.islice(entries, MAX_NAMES) if each.name.isprintable()]
    except (OSError, ValueError):
        return []


def is_bare_name(name: object) -> TypeGuard[str]:
    """Returns True if something from outside may name a file in a folder of ours, on every system.

    ASCII letters, digits, ``.``, ``_`` and ``-``; no leading dot, no separator, no drive, no device, 200 at most.
    """
    return isinstance(name, str) and bool(_BARE.fullmatch(name)) and not windows.why_refused(name)


def stem_of(title: str, otherwise: str) -> str:
    """Returns a file name without suffix for a title: letters, digits, ``-``, ``_`` and spaces, 60 at most."""
    kept = "".join(ch if ch.isalnum() or ch in " -_" else " " for ch in title).strip()[:60].rstrip()
    return f"_{kept}" if windows.why_refused(kept) else kept or otherwise


def is_plain_file(path: Path) -> bool:
    """Returns True if the path is a regular file, and no link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def clear(folder: Path, is_ours: Callable[[str], bool], last: str) -> None:
    """Removes the files of a folder whose names are ours, and the folder, if nothing else is in it.

    A link is removed as a link. A folder inside is removed if its name with a slash is ours and nothing else is in it;
    the names of its files are checked with the folder's name before theirs. ``last`` is the name of the file that lists
    our files: it is removed last, so that an interrupted removal can be finished later.

    Raises:
        SafelightError: something else is in it and stays, or a file cannot be removed.
    """
    try:
        left = ""
        for name in sorted(os.listdir(folder), key=lambda name: (name == last, name)):
            path = folder / name
            is_folder = path.is_dir() and not path.is_symlink()
            if is_folder and is_ours(f"{name}/"):
                clear(path, lambda inner, outer=name: is_ours(f"{outer}/{inner}"), last)  # type: ignore[misc]
            elif is_ours(name) and not is_folder:
                path.unlink()
            else:
                left = name
        if left:
            raise SafelightError(f"{folder} holds {quoted(left)}, which Safelight did not write; remove it yourself")
        folder.rmdir()
    except OSError as error:
        raise SafelightError(f"{folder} cannot be removed ({error.strerror or error}); remove it yourself") from error


def private_folder(folder: Path) -> Path:
    """Makes a folder and its missing parents, readable by their owner alone (0700); existing folders keep their rights.

    Raises:
        OSError: it cannot be made.
    """
    missing = []
    place = folder = windows.reachable(folder)
    while not place.exists():
        missing.append(place)
        if place.parent == place:
            break
        place = place.parent
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return folder


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yields the name of an empty file in the folder of ``path``, which replaces ``path`` at the end.

    On any failure it is removed. The bytes are synced to the disk (fsync) before the rename: after a crash of the
    machine either the old file or the new one is there, whole. Which one is not determined, as the folder is not
    synced.

    Args:
        path: where the whole file is to be.
        private: readable by its owner alone (0600); else the rights of any new file.

    Raises:
        SafelightError: the disk is full, the folder is missing or cannot be written to, or ``path`` is there and is not
            a file.
    """
    place = windows.reachable(path)
    temporary = place.with_name(f".{path.name[:80]}.{secrets.token_hex(4)}.part")
    try:
        if windows.IS_WINDOWS and (why := windows.why_refused(path.name)):
            raise OSError(errno.EINVAL, why)
        if path.exists() and not path.is_file():  # a folder, or /dev/null, which the rename would replace by a file
            raise OSError(errno.EINVAL, "it is not a file")
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            windows.retried(os.replace, temporary, place)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as fault:
        raise explained(fault, path) from fault


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Writes a UTF-8 file whole or not at all; arguments and errors as ``replacing``."""
    with replacing(path, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Writes a value as indented JSON, whole or not at all; errors as ``replacing``."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def explained(fault: OSError, path: Path) -> SafelightError:
    """Returns an error that says why a file was not written, and what to do."""
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return SafelightError(f"the disk is full, so {path} was not written. Free some space, then try again")
    if fault.errno == errno.ENOENT:
        return SafelightError(f"there is no folder {path.parent}. Choose a folder that exists")
    why = fault.strerror or str(fault)
    return SafelightError(f"{path} cannot be written ({why}). Choose another place")
