"""The files of a download, and its progress. Knows no network.

An unfinished one has a ``safelight.json`` in its repository's folder of the Hugging Face cache. There a file is
``blobs/HASH.incomplete`` until its hash was seen to be right.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from engine.declared import plain, read
from engine.errors import SafelightError, quoted
from engine.files import is_bare_name, open_regular, read_json, write_json
from engine.hub_cache import repo_folder
from engine.store_files import DRAFT_FILES, DRAFT_FOLDER
from engine.text.vocabulary_files import FILES as VOCABULARY

READ_BYTES = 2**22  # bytes read at once
HASH = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


def matches(path: Path, digest: str, counted: Callable[[int], None]) -> bool:
    """Returns True if a file's content has a SHA-256, or git's SHA-1, which has fewer digits.

    ``counted`` is called with the bytes of each piece that was read, and may raise to stop.
    """
    with open_regular(path) as opened:
        head = b"blob %d\0" % os.fstat(opened.fileno()).st_size
        state = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(head, usedforsecurity=False)
        while piece := opened.read(READ_BYTES):
            state.update(piece)
            counted(len(piece))
    return state.hexdigest() == digest


WANTED = (
    "config.json", "hf_quant_config.json", "generation_config.json", "tokenizer*.json", "chat_template.jinja",
    "*.safetensors", "*.safetensors.index.json", *VOCABULARY,
)  # fmt: skip
DRAFT = frozenset(f"{DRAFT_FOLDER}/{name}" for name in DRAFT_FILES)  # in the only folder inside a model's folder
MARK = "safelight.json"
FILE_BYTES = 50 * 10**9  # the most that hubs send of a file over HTTP

Stage = Literal["waiting", "downloading", "checking"]  # "waiting": the hub has not answered for a while


@dataclass(frozen=True)
class DownloadProgress:
    """The progress of a download and of its file; amounts are bytes."""

    stage: Stage
    file: str
    file_done: int
    file_bytes: int
    done_bytes: int
    total_bytes: int
    bytes_per_second: float  # over the last seconds; 0 while nothing arrives


def is_wanted(name: object) -> bool:
    """Returns True if it is the name of a file that a model needs: a plain name, or one of its draft adapter."""
    return name in DRAFT or (is_bare_name(name) and any(fnmatchcase(str(name), pattern) for pattern in WANTED))


@dataclass(frozen=True)
class RemoteFile:
    """A file as the hub lists it; a model does not need it, or size or hash are none: ``SafelightError``."""

    name: str  # its path in the repository
    bytes: int
    hash: str  # SHA-256 of a large file's content, git's SHA-1 of a small one

    def __post_init__(self) -> None:
        is_sized = type(self.bytes) is int and 0 <= self.bytes <= FILE_BYTES
        if not (is_wanted(self.name) and is_sized and isinstance(self.hash, str) and HASH.fullmatch(self.hash)):
            raise SafelightError(
                f"{quoted(self.name)} is listed without a size and a hash that a model's file can have"
            )

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
        if not (isinstance(self.revision, str) and HASH.fullmatch(self.revision)):
            raise SafelightError(f"{self.repo} is listed at {quoted(self.revision)}, which is not a commit")

    @property
    def snapshot(self) -> Path:
        return repo_folder(self.repo) / "snapshots" / self.revision

    def part(self, file: RemoteFile) -> Path:
        return repo_folder(self.repo) / "blobs" / f"{file.hash}.incomplete"

    def has(self, file: RemoteFile) -> bool:
        return os.path.isfile(self.snapshot / file.name)

    @property
    def done_bytes(self) -> int:
        """The bytes that are in the cache: of files in the snapshot, of blobs without a link, of incomplete ones."""
        parts = ((file, self.part(file), self.snapshot / file.name) for file in self.files)
        return sum(min(max(map(size_of, (part, part.with_suffix(""), at))), file.bytes) for file, part, at in parts)

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def write(self) -> None:
        self.snapshot.mkdir(parents=True, exist_ok=True)
        write_json(repo_folder(self.repo) / MARK, plain(self))

    @staticmethod
    def read(repo: str) -> Record | None:
        """Returns the record of an unfinished download; None if there is none that we could have written."""
        try:
            return read(Record, read_json(repo_folder(repo) / MARK) | {"repo": repo}, MARK)
        except SafelightError:
            return None


def size_of(path: Path) -> int:
    """Returns the size of a file, or of the one that a link leads to; 0 if there is none."""
    try:
        return path.stat().st_size if os.path.isfile(path) else 0
    except OSError:  # it was renamed meanwhile
        return 0
