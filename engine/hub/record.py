"""A repository's files with sizes and hashes, kept in the download's folder. Knows no network.

The record also marks a folder and its files as ours. The folder may come from a stranger: a record that no download of
ours could have written is ignored.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import SafelightError, quoted
from engine.files import open_regular, parse_json, read_bytes, write_json
from engine.hub.names import DRAFT, is_hash, is_repo, is_revision, is_wanted, repo_of
from engine.store_files import DRAFT_FOLDER

RECORD = "safelight-download.json"
PART = ".part"  # ends the name of an incomplete or unverified file
FORMAT, VERSION = "safelight-download", 1
FILES = 500  # of a repository; the largest models have under 200
FILE_BYTES = 2**45
RECORD_BYTES = 2**18
PIECE = 2**22  # bytes read at once

_LEFTOVER = re.compile(rf"\.{re.escape(RECORD)}\.[0-9a-f]+\.part")  # of a record that was being written


class ClosedError(SafelightError):
    """The repository asks for an accepted licence and an access token."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as the hub lists it, ``name`` being its path in the repository; it has one of the two hashes.

    Raises:
        SafelightError: a model does not need a file of that name, or size or hash are missing.
    """

    name: str
    bytes: int
    sha256: str = ""  # of a large file's content
    blob: str = ""  # git's SHA-1 of a small one

    def __post_init__(self) -> None:
        if not is_wanted(self.name):
            raise SafelightError(f"{quoted(self.name)} is not the name of a file that a model needs")
        if type(self.bytes) is not int or not 0 <= self.bytes <= FILE_BYTES:
            raise SafelightError(f"{self.name} is listed with a size of {quoted(self.bytes)} bytes")
        if not ((is_hash(self.sha256, 64) and self.blob == "") or (is_hash(self.blob, 40) and self.sha256 == "")):
            raise SafelightError(f"{self.name} is listed without a hash, so it cannot be verified")

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")

    def done_bytes(self, folder: Path) -> int:
        """Returns the bytes of it in the folder, complete or partial; never more than its size."""
        for path in (folder / self.name, folder / (self.name + PART)):
            if (size := size_of(path)) is not None:
                return min(size, self.bytes)
        return 0


def listed(files: Iterable[RemoteFile]) -> tuple[RemoteFile, ...]:
    """Checks and returns the files of one folder.

    Raises:
        SafelightError: they are more than ``FILES``, or two have names that are one on some systems.
    """
    found: dict[str, RemoteFile] = {}
    for file in files:
        if file.name.lower() in found:
            raise SafelightError(f"{file.name} is listed twice")
        found[file.name.lower()] = file
        if len(found) > FILES:
            raise SafelightError(f"more than {FILES} files are listed")
    return tuple(found.values())


@dataclass(frozen=True)
class Record:
    """A repository at one revision, with the files that a model needs; ``files`` come from ``listed``."""

    repo: str
    revision: str
    files: tuple[RemoteFile, ...]

    def __post_init__(self) -> None:
        names = {file.name for file in self.files} - DRAFT
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            raise SafelightError(f"{self.repo} holds no model that Safelight reads: config.json with safetensors")
        if not is_repo(self.repo) or not is_revision(self.revision):
            raise SafelightError(f"{quoted(self.repo)} is listed at {quoted(self.revision)}, which is not a commit")

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def done_bytes(self, folder: Path) -> int:
        """Returns the bytes of all files in the folder."""
        return sum(file.done_bytes(folder) for file in self.files)

    def missing(self, folder: Path) -> tuple[RemoteFile, ...]:
        """Returns the files that are not in the folder with their full size; a link does not count."""
        return tuple(file for file in self.files if size_of(folder / file.name) != file.bytes)

    def owns(self, name: str) -> bool:
        """Returns True if a download of this record may have written a file of that name into its folder."""
        names = {file.name for file in self.files}
        return (
            is_own(name)
            or name.removesuffix(PART) in names
            or (name == f"{DRAFT_FOLDER}/" and not names.isdisjoint(DRAFT))
        )

    def write(self, folder: Path) -> None:
        """Writes the record into the folder, completely or not at all."""
        raw = {"format": FORMAT, "version": VERSION, "repo": self.repo, "revision": self.revision}
        write_json(folder / RECORD, raw | {"files": [asdict(file) for file in self.files]})

    @staticmethod
    def read(folder: Path) -> Record | None:
        """Reads the record of a folder of ours.

        Returns:
            None if the folder is a link or has another name, or if no download of ours could have written the record.
        """
        try:
            if not all(_is_folder(place) for place in (folder, folder / DRAFT_FOLDER) if os.path.lexists(place)):
                return None
            text = read_bytes(folder / RECORD, RECORD_BYTES, follow_links=False).decode("utf-8")
            raw: Any = parse_json(text, RECORD, depth=4, values=8 * FILES)
            if (raw["format"], raw["version"]) != (FORMAT, VERSION) or raw["repo"] != repo_of(folder.name):
                return None
            files = listed(RemoteFile(f["name"], f["bytes"], f["sha256"], f["blob"]) for f in raw["files"])
            return Record(raw["repo"], raw["revision"], files)
        except (SafelightError, OSError, KeyError, TypeError, ValueError):
            return None


def _is_folder(place: Path) -> bool:
    """Returns True if it is a folder itself, not a link to one."""
    return stat.S_ISDIR(place.lstat().st_mode)


def is_own(name: str) -> bool:
    """Returns True if it is the name of a record, or of a partly written one."""
    return name == RECORD or bool(_LEFTOVER.fullmatch(name))


def is_begun(work: Path) -> bool:
    """Returns True if a download has just made this folder, without a record: a real folder, still empty."""
    try:
        with os.scandir(work) as inside:
            return _is_folder(work) and all(_LEFTOVER.fullmatch(entry.name) for entry in inside)
    except OSError:
        return False


def size_of(path: Path) -> int | None:
    """Returns the size of a regular file; None if it is missing or anything else, such as a link."""
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def matches(path: Path, file: RemoteFile, counted: Callable[[int], None]) -> bool:
    """Returns True if a file has the size and the hash that the hub lists: SHA-256, or git's SHA-1 of a small one.

    ``counted`` is called with the bytes of each piece that was read, and may raise to stop.
    """
    if size_of(path) != file.bytes:
        return False
    state = hashlib.sha256() if file.sha256 else hashlib.sha1(b"blob %d\0" % file.bytes, usedforsecurity=False)
    with open_regular(path, follow_links=False) as opened:
        while piece := opened.read(PIECE):
            state.update(piece)
            counted(len(piece))
    return state.hexdigest() == (file.sha256 or file.blob)
