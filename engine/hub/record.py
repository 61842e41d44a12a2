"""What is known of a repository's files before the first of them is here, kept beside them. Knows no network."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import SafelightError
from engine.files import read_json

RECORD = "safelight-download.json"
PART = ".part"  # ends the name of a file that is not whole and verified yet
UNFINISHED = ".partial"  # ends the name of a folder that is no model yet
FORMAT, VERSION = "safelight-download", 1


class ClosedError(SafelightError):
    """The repository asks for an accepted licence and an access token."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as the hub lists it; it has one of the two hashes."""

    name: str
    bytes: int
    sha256: str = ""  # of a large file's content
    blob: str = ""  # git's SHA-1 of a small one

    def done_bytes(self, folder: Path) -> int:
        """How much of it lies in the folder, whole or in part; never more than its size."""
        for path in (folder / self.name, folder / (self.name + PART)):
            if path.is_file():
                return min(path.stat().st_size, self.bytes)
        return 0


@dataclass(frozen=True)
class Record:
    """A repository at one revision, as far as a model needs it."""

    repo: str
    revision: str
    files: tuple[RemoteFile, ...]

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def done_bytes(self, folder: Path) -> int:
        """How much of it lies in the folder."""
        return sum(file.done_bytes(folder) for file in self.files)

    def missing(self, folder: Path) -> tuple[RemoteFile, ...]:
        """The files that are not in the folder with their full size."""
        return tuple(
            file
            for file in self.files
            if not (folder / file.name).is_file() or (folder / file.name).stat().st_size != file.bytes
        )

    def write(self, folder: Path) -> None:
        """Put the record into the folder, whole or not at all."""
        raw = {"format": FORMAT, "version": VERSION, "repo": self.repo, "revision": self.revision}
        text = json.dumps(raw | {"files": [asdict(file) for file in self.files]}, indent=2) + "\n"
        beside = folder / (RECORD + ".tmp")
        with beside.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, folder / RECORD)

    @staticmethod
    def read(folder: Path) -> Record | None:
        """The folder's record; None where there is none that can be read, as the hub can be asked again."""
        try:
            raw = read_json(folder / RECORD)
            if (raw["format"], raw["version"]) != (FORMAT, VERSION):
                return None
            files = tuple(
                RemoteFile(str(f["name"]), int(f["bytes"]), str(f["sha256"]), str(f["blob"])) for f in raw["files"]
            )
            return Record(str(raw["repo"]), str(raw["revision"]), files)
        except (SafelightError, OSError, KeyError, TypeError, ValueError):
            return None


def folder_name(repo: str) -> str:
    """``owner/name`` as the name of a folder."""
    return repo.replace("/", "--", 1)


def repo_of(name: str) -> str:
    """The repository that a folder's name stands for, without its ending."""
    return name.removesuffix(UNFINISHED).replace("--", "/", 1)
