"""Gets the list of a repository's files and their bytes from a hub, with retries. Knows no model.

Plain HTTP with range requests; nothing else is sent. Neither the hub nor a proxy that answers in its place is trusted:
an answer has a deadline and a largest size, and ``RemoteFile`` checks the names, sizes and hashes of a listing.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urljoin
from urllib.request import getproxies

import httpx2

from engine import windows
from engine.errors import SafelightError
from engine.files import JSON_BYTES, parse_json
from engine.hub import errors
from engine.hub.names import is_token, is_wanted
from engine.hub.progress import ByteCounter
from engine.hub.record import ClosedError, Record, RemoteFile, listed, size_of
from engine.hub.wire import BrokenError, Exchange, has_route
from engine.text.vocabulary_files import FILES

AGENT = "safelight"
PUBLIC = "https://huggingface.co"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_WAIT = 30.0  # seconds between two tries
REDIRECTS = (301, 302, 303, 307, 308)
HOPS = 5

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """Retries and time limits; times in seconds."""

    tries: int = 6  # consecutive tries without a byte
    first_wait: float = 1.0  # between two tries; doubled each time
    answer: float = 30.0  # until the head of an answer, and for a whole listing
    stall: float = 10.0  # without a byte
    soon: float = 0.7  # until a missing answer is reported as waited for


@dataclass(frozen=True)
class Hub:
    """One repository of one hub. ``endpoint`` None uses HF_ENDPOINT of the environment, or the public hub.

    Raises:
        SafelightError: the token is none, or the environment forbids downloads.
    """

    repo: str
    endpoint: str | None = None
    token: str | None = None
    patience: Patience = Patience()
    _met: threading.Event = field(default_factory=threading.Event, init=False, repr=False)  # it has answered once

    def __post_init__(self) -> None:
        if self.token and not is_token(self.token):
            raise ClosedError("the access token contains invalid characters; enter it again")
        if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SafelightError("the environment variable HF_HUB_OFFLINE forbids downloads; unset it and start again")

    @property
    def address(self) -> str:
        return (self.endpoint or os.environ.get("HF_ENDPOINT") or PUBLIC).rstrip("/")

    def require_network(self) -> None:
        """Checks that there is a network, before anything is requested.

        Raises:
            SafelightError: there is none.
        """
        is_near = httpx2.URL(self.address).host in LOOPBACK
        if not is_near and not getproxies() and not has_route():
            raise SafelightError("this computer is not connected to a network; connect it, then try again")

    def listing(self, counter: ByteCounter) -> Record:
        """Returns the files that a model needs, with sizes and hashes.

        Raises:
            SafelightError: no network, no such repository, one that is closed, or one that holds no model.
            StoppedError: a flag was set.
        """
        entries, revision = parse_listing(
            self._retrying(lambda: self._listing(counter), lambda: 0, counter), self.address
        )
        files = []
        needless = FILES if any(entry.get("rfilename") == "tokenizer.json" for entry in entries) else ()
        for entry in entries:
            name = entry.get("rfilename")
            if is_wanted(name) and name not in needless:
                large = entry.get("lfs")
                hashes = {"sha256": large.get("sha256")} if isinstance(large, dict) else {"blob": entry.get("blobId")}
                files.append(RemoteFile(name, entry.get("size"), **hashes))
        files.sort(key=lambda file: file.bytes)  # small files first, so that errors show early
        return Record(self.repo, revision, listed(files))

    def _listing(self, counter: ByteCounter) -> bytes:
        url = f"{self.address}/api/models/{self.repo}?blobs=true"
        ends = time.monotonic() + self.patience.answer
        with self._get(url, {}, counter) as answer:
            body = answer.whole(JSON_BYTES, ends - time.monotonic())
        if body is None:
            raise SafelightError(f"{self.address} sends a list of over {JSON_BYTES:,} bytes; check the address")
        return body

    def fetch(self, file: RemoteFile, revision: str, part: Path, counter: ByteCounter) -> None:
        """Completes ``part`` to the file's size, from the byte where it ends; a dropped connection is tried again.

        Raises:
            SafelightError: the hub refuses, the network is gone for long, or the file cannot be written.
            StoppedError: a flag was set; the bytes so far stay.
        """
        url = f"{self.address}/{self.repo}/resolve/{revision}/{file.name}"
        self._retrying(lambda: self._stream(url, part, file.bytes, counter), lambda: size_of(part) or 0, counter)

    def _stream(self, url: str, part: Path, size: int, counter: ByteCounter) -> None:
        """Sends one request and writes its bytes as they arrive."""
        start = size_of(part)
        if start == size:
            return
        start = start or 0
        with self._get(url, {"Range": f"bytes={start}-"} if start else {}, counter) as answer:
            goes_on = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
            if answer.status == 206 and not goes_on:
                raise BrokenError("a different range than requested")
            with errors.explaining_disk(part), opened(part) as out:
                if start and not goes_on:  # 200, or 416: the part is no beginning of the file
                    out.truncate(0)
                    counter.add(-start)
                    start = 0
                out.seek(start)
                if answer.status != 416:
                    for piece in answer.pieces():
                        piece = piece[: size - start]  # surplus bytes make the hash wrong
                        out.write(piece)
                        start += len(piece)
                        counter.add(len(piece))
                        if start == size:
                            break
                    os.fsync(out.fileno())
        if start != size:
            raise BrokenError("not all of it was sent")

    @contextmanager
    def _get(self, url: str, headers: dict[str, str], counter: ByteCounter) -> Iterator[Exchange]:
        """Yields the answer to a GET, after redirects. The token is sent to the hub's own host only."""
        for _ in range(HOPS):
            sent = {"User-Agent": AGENT, "Accept-Encoding": "identity"} | headers
            if self.token and _origin(url) == _origin(self.address):
                sent["Authorization"] = f"Bearer {self.token}"
            patience = self.patience
            with Exchange(
                url,
                sent,
                counter.check,
                seconds=patience.answer,
                stall=patience.stall,
                soon=patience.soon,
                is_late=counter.answer_is_late,
            ) as answer:
                self._met.set()
                if answer.status not in REDIRECTS:
                    if answer.status not in (200, 206) and (answer.status != 416 or "Range" not in headers):
                        raise errors.StatusError(answer.status, answer.headers.get("X-Error-Code", ""))
                    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                        raise BrokenError("compressed, which was not requested")
                    yield answer
                    return
                url = _next(url, answer.headers.get("Location", ""))
        raise errors.RedirectError

    def _retrying(self, work: Callable[[], T], received: Callable[[], int], counter: ByteCounter) -> T:
        """Retries until it works; a try that brought bytes does not count.

        A hub that was never reached is tried once.
        """
        tries = 0
        while True:
            counter.check()
            before = received()
            try:
                return work()
            except errors.TRANSFER_ERRORS as error:
                tries = 1 if received() > before else tries + 1
                if isinstance(error, errors.ABSENT_ERRORS) and not self._met.is_set():
                    raise errors.absent(self.address) from error
                if not errors.is_transient(error) or tries >= self.patience.tries:
                    raise errors.explained(error, self.repo, self.address, with_token=bool(self.token)) from error
                counter.wait(min(self.patience.first_wait * 2 ** (tries - 1), LONGEST_WAIT))


def parse_listing(data: bytes, address: str) -> tuple[Any, Any]:
    """Returns a list of objects, one a file, and their revision; their content is not checked yet.

    Raises:
        SafelightError: it is something else, such as a network's login page.
    """
    try:
        raw = parse_json(data.decode("utf-8"), address)
        if all(isinstance(entry, dict) for entry in raw["siblings"]):
            return raw["siblings"], raw.get("sha") or "main"
    except (SafelightError, ValueError, KeyError, TypeError):
        pass
    raise SafelightError(
        f"{address} does not send a list of files. If this network asks for a password, open a web page first, then "
        "try again"
    )


def opened(part: Path) -> BinaryIO:
    """Opens a part for writing, if it is a plain file: a link would lead out of the folder.

    Raises:
        SafelightError: it is something else.
        OSError: it cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    handle = os.open(windows.reachable(part), flags, 0o666)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise errors.foreign(part)
    return open(handle, "wb", buffering=0)


def _next(url: str, location: str) -> str:
    """Returns the target of a redirect.

    Raises:
        RedirectError: another protocol, or from HTTPS to HTTP.
    """
    try:
        there = httpx2.URL(urljoin(url, location))
        allowed = ("https",) if httpx2.URL(url).scheme == "https" else ("http", "https")
        if location and there.scheme in allowed and there.host and not there.userinfo:
            return str(there)
    except (httpx2.InvalidURL, ValueError):
        pass
    raise errors.RedirectError


def _origin(url: str) -> tuple[str, str, int | None]:
    found = httpx2.URL(url)
    return found.scheme, found.host, found.port
