"""The files of a download, kept in the data folder until all of them are in the Hugging Face cache. Knows no network.

There a file is ``blobs/HASH.incomplete`` until its hash was seen to be right.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from engine.errors import SafelightError, quoted
from engine.files import is_bare_name, parse_json, read_bytes, write_json
from engine.hub_cache import is_commit, repo_folder
from engine.store_files import DRAFT_FILES, DRAFT_FOLDER
from engine.text.vocabulary_files import FILES as VOCABULARY

WANTED = (
    "config.json", "hf_quant_config.json", "generation_config.json", "tokenizer*.json", "chat_template.jinja",
    "*.safetensors", "*.safetensors.index.json", *VOCABULARY,
)  # fmt: skip
DRAFT = frozenset(f"{DRAFT_FOLDER}/{name}" for name in DRAFT_FILES)  # in the only folder inside a model's folder
SUFFIX = ".download.json"
FILES = 500  # of a repository; the largest models have under 200
FILE_BYTES = 50 * 10**9  # the most that hubs send of a file over HTTP
_HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


class ClosedError(SafelightError):
    """The repository asks for an accepted licence and an access token."""


def is_wanted(name: object) -> bool:
    """Returns True if it is the name of a file that a model needs: a plain name, or one of its draft adapter."""
    return name in DRAFT or (is_bare_name(name) and any(fnmatchcase(str(name), pattern) for pattern in WANTED))


@dataclass(frozen=True)
class RemoteFile:
    """A file as the hub lists it; a model does not need it, or size or hash are missing: ``SafelightError``."""

    name: str  # its path in the repository
    bytes: int
    hash: str  # SHA-256 of a large file's content, git's SHA-1 of a small one

    def __post_init__(self) -> None:
        if not is_wanted(self.name):
            raise SafelightError(f"{quoted(self.name)} is not the name of a file that a model needs")
        if type(self.bytes) is not int or not 0 <= self.bytes <= FILE_BYTES:
            raise SafelightError(f"{self.name} is listed with a size of {quoted(self.bytes)} bytes")
        if not isinstance(self.hash, str) or not _HASH.fullmatch(self.hash):
            raise SafelightError(f"{self.name} is listed without a hash, so it cannot be verified")

    @property
    def is_weights(self) -> bool:
        return self.name.endswith(".safetensors")


@dataclass(frozen=True)
class Record:
    """The files of a repository's commit that were missing when its download began; the weights are the last."""

    repo: str
    revision: str
    files: tuple[RemoteFile, ...]

    def __post_init__(self) -> None:
        if len(self.files) > FILES or len({file.name.lower() for file in self.files}) < len(self.files):
            raise SafelightError(f"{self.repo} lists more than {FILES} files, or one of them twice")
        if not is_commit(self.revision):
            raise SafelightError(f"{self.repo} is listed at {quoted(self.revision)}, which is not a commit")

    @property
    def snapshot(self) -> Path:
        return repo_folder(self.repo) / "snapshots" / self.revision

    def part(self, file: RemoteFile) -> Path:
        return repo_folder(self.repo) / "blobs" / f"{file.hash}.incomplete"

    def has(self, file: RemoteFile) -> bool:
        return os.path.isfile(path := self.snapshot / file.name) and size_of(path) == file.bytes

    @property
    def done_bytes(self) -> int:
        """The bytes that are in the cache, of whole and incomplete files."""
        return sum(file.bytes if self.has(file) else min(size_of(self.part(file)), file.bytes) for file in self.files)

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def write(self, folder: Path) -> None:
        write_json(record_of(self.repo, folder), asdict(self))

    @staticmethod
    def read(repo: str, folder: Path) -> Record | None:
        """Returns the record of an unfinished download; None if there is none that we could have written."""
        try:
            data = read_bytes(record_of(repo, folder), 2**18, follow_links=False).decode("utf-8")
            raw: Any = parse_json(data, SUFFIX, depth=4, values=8 * FILES)
            return Record(repo, raw["revision"], tuple(RemoteFile(**file) for file in raw["files"]))
        except (SafelightError, OSError, KeyError, TypeError, ValueError):
            return None


def record_of(repo: str, folder: Path) -> Path:
    """Returns the path of an unfinished download's record in the data folder."""
    return folder / (repo.replace("/", "--") + SUFFIX)


def size_of(path: Path) -> int:
    """Returns the size of a file, or of the one that a link leads to; 0 if there is none."""
    try:
        return path.stat().st_size if os.path.isfile(path) else 0
    except OSError:  # it was renamed meanwhile
        return 0
