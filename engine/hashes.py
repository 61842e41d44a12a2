"""Compares a model's files with the hashes that were kept of them. Knows no network and no torch."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from engine.errors import SafelightError
from engine.files import is_bare_name, is_plain_file, open_regular, read_json
from engine.hub_cache import repo_of
from engine.store_files import MANIFEST
from engine.types import Cancel

PIECE = 2**22  # bytes read at once
HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def matches(path: Path, digest: str, counted: Callable[[int], None]) -> bool:
    """Returns True if a file's content has a SHA-256, or git's SHA-1, which has fewer digits.

    ``counted`` is called with the bytes of each piece that was read, and may raise to stop.
    """
    with open_regular(path) as opened:
        head = b"blob %d\0" % os.fstat(opened.fileno()).st_size
        state = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(head, usedforsecurity=False)
        while piece := opened.read(PIECE):
            state.update(piece)
            counted(len(piece))
    return state.hexdigest() == digest


def hashes_of(model: Path) -> dict[Path, str]:
    """Returns the files of a packed store, or of a model in the Hugging Face cache, with their hashes.

    In the cache a file is a link to one whose name is its hash.

    Raises:
        SafelightError: they have none, or the store's list of them is damaged.
    """
    if os.path.lexists(model / MANIFEST):
        try:
            listed = {name: shard["sha256"] for name, shard in read_json(model / MANIFEST)["files"].items()}
            if all(is_bare_name(name) and HASH.fullmatch(digest) for name, digest in listed.items()):
                return {model / name: digest for name, digest in listed.items()}
        except (KeyError, TypeError, AttributeError):
            pass
        raise SafelightError(f"{model / MANIFEST} is damaged; convert the model again")
    links = (path for path in sorted(model.rglob("*")) if path.is_symlink()) if repo_of(model) else ()
    found = {path: name for path in links if HASH.fullmatch(name := os.path.basename(os.readlink(path)))}
    if not found:
        raise SafelightError(f"{model} came without hashes, so it cannot be verified")
    return found


def verify(model: Path, progress: Callable[[int, int], None], cancel: Cancel) -> bool:
    """Reads all files of ``hashes_of``, and compares. Damaged ones of the cache are removed, to be fetched again.

    ``progress`` is called with the bytes done, and all.

    Returns:
        True if all were read; False after ``cancel``.

    Raises:
        SafelightError: files are damaged or missing, or have no hashes.
    """
    files, is_store = hashes_of(model), os.path.lexists(model / MANIFEST)
    total, done, damaged = sum(path.stat().st_size for path in files if path.is_file()), 0, []

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total)
        if cancel.is_set():
            raise InterruptedError

    try:
        for path, digest in files.items():
            is_there = is_plain_file(path) if is_store else path.is_file()  # a store's link leads elsewhere
            if not is_there or not matches(path, digest, count):
                damaged.append(path)
        names = ", ".join(path.name for path in damaged)
        for path in damaged if not is_store else ():
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
    except InterruptedError:
        return False
    except OSError as error:
        raise SafelightError(f"{model} cannot be read ({error.strerror or error}); check the disk") from error
    if damaged and is_store:
        raise SafelightError(f"{model} is damaged ({names}); delete it and convert the model again")
    if damaged:
        raise SafelightError(f"damaged: {names}; download the model again, which fetches only what is missing")
    return True
