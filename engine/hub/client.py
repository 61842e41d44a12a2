"""Lists a repository and receives its files by ``huggingface_hub``, within bounds that the library does not have.

The library's own download begins a stopped file anew, so its ``http_get`` is given the incomplete file to go on with.
It works in a thread, which a stalled network may hold for ten seconds more: a stopped download leaves it behind, with a
file that is closed. Neither the hub nor a proxy that answers in its place is trusted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads both when it is imported
os.environ.setdefault("HF_HUB_DISABLE_SYMLINKS_WARNING", "1")

import httpx2
from huggingface_hub import constants  # by their modules: a bundle is made of the imports that are seen
from huggingface_hub.file_download import are_symlinks_supported, hf_hub_url, http_get
from huggingface_hub.hf_api import HfApi
from huggingface_hub.utils._auth import get_token
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import close_session, set_client_factory

from engine import windows
from engine.errors import SafelightError, proxy_error
from engine.hashes import matches
from engine.hub.errors import explained, is_transient
from engine.hub.progress import POLL_SECONDS, ByteCounter
from engine.hub.record import Record, RemoteFile, is_wanted, size_of
from engine.hub_cache import cache_folder
from engine.text.vocabulary_files import FILES
from engine.tools.declared import is_loopback

BODY_BYTES = 8 * 2**20  # of a listing
BODY_SECONDS = 30.0  # for all of it
SECONDS = 10.0  # without a byte
GIVE_UP = 70.0  # seconds without one of the body, while the library tries again, or a head goes on and on
PIECE = 2**16  # bytes received at once; the library's ten million come in jumps, and the last would be lost
SOON = 0.7  # seconds until a missing answer is reported as waited for
TRIES = 3  # in a row, without a byte
PAUSE = 1.0  # seconds between them

T = TypeVar("T")


class Client:
    """One repository. ``endpoint`` None is that of HF_ENDPOINT, or the public hub; ``token`` None the library's."""

    def __init__(self, repo: str, endpoint: str | None, token: str | None, counter: ByteCounter) -> None:
        self.repo, self.counter = repo, counter
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        self._token = token or get_token()
        constants.DOWNLOAD_CHUNK_SIZE = PIECE
        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # the library logs addresses that are signed
        set_client_factory(partial(_client, uses_proxies=not is_loopback(httpx2.URL(self.endpoint).host)))
        close_session()  # the proxies may be others by now

    def listing(self) -> Record:
        """Returns the files that a model needs and the cache has not, with sizes and hashes.

        Raises:
            SafelightError: no network, no such repository, one that is closed, or one that holds no model.
        """
        api = HfApi(self.endpoint, token=self._token, library_name="safelight")
        return self._tried(lambda: self._read(api.model_info(self.repo, timeout=SECONDS, files_metadata=True)))

    def _read(self, info: Any) -> Record:
        names = {each.rfilename for each in info.siblings}
        needless = FILES if "tokenizer.json" in names else ()
        wanted = [each for each in info.siblings if is_wanted(each.rfilename) and each.rfilename not in needless]
        files = [RemoteFile(f.rfilename, f.size, f.lfs.sha256 if f.lfs else f.blob_id) for f in wanted]
        if "config.json" not in names or not any(file.is_weights for file in files):
            raise SafelightError(f"{self.repo} holds no model that Safelight reads: config.json with safetensors")
        whole = Record(self.repo, info.sha, tuple(sorted(files, key=lambda file: (file.is_weights, file.bytes))))
        return Record(self.repo, info.sha, tuple(file for file in whole.files if not whole.has(file)))

    def fetch(self, file: RemoteFile, record: Record) -> None:
        """Completes a file, verifies it, and puts it into the cache; a damaged one is fetched once more.

        Raises:
            SafelightError: the hub refuses, the network is gone for long, or the file cannot be written.
        """
        part, pointer = record.part(file), record.snapshot / file.name
        blob = part.with_name(file.hash)
        for folder in (blob.parent, pointer.parent):
            folder.mkdir(parents=True, exist_ok=True)
        has_links = are_symlinks_supported(cache_folder())
        if not has_links or not blob.exists():
            before = record.done_bytes - min(size_of(part), file.bytes)
            self.counter.enter("downloading", file.name, file.bytes, before)
            if not self._is_received(file, record, part) and not self._is_received(file, record, part):
                raise SafelightError(f"{file.name} of {self.repo} arrived damaged twice and was removed. Resume later")
            windows.retried(os.replace, part, blob if has_links else pointer)
        if has_links:
            pointer.unlink(missing_ok=True)
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))

    def _is_received(self, file: RemoteFile, record: Record, part: Path) -> bool:
        """Returns True if the file arrived as it is listed; else what arrived is removed."""
        url = hf_hub_url(self.repo, file.name, revision=record.revision, endpoint=self.endpoint)
        headers = build_hf_headers(token=self._token, library_name="safelight")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(windows.reachable(part), flags, 0o666), "r+b") as out:
            if size_of(part) > file.bytes:
                out.truncate(0)

            class Bound(nullcontext[Any]):  # in place of a progress bar, which is called before bytes are written
                def __init__(self, **_options: object) -> None:
                    super().__init__(self)

                def update(self, count: int, check: Callable[[], None] = self.counter.check) -> None:
                    check()
                    if out.tell() + count > file.bytes:
                        raise OSError("more bytes than were listed")

            def receive() -> None:
                start = out.seek(0, os.SEEK_END)
                http_get(url, out, resume_size=start, headers=headers, expected_size=file.bytes, tqdm_class=Bound)  # type: ignore[arg-type]
                out.flush()
                os.fsync(out.fileno())

            self._tried(receive, lambda: size_of(part))
        self.counter.stage = "checking"
        if matches(part, file.hash, lambda _count: self.counter.tick(file.bytes)):
            return True
        part.unlink()
        return False

    def _tried(self, work: Callable[[], T], at: Callable[[], int] = lambda: 0) -> T:
        """Returns what ``work`` does; tries again for as long as bytes come, else ``TRIES`` times.

        ``at`` returns the bytes so far. The library tries again by itself if nobody answers.
        """
        failures = 0
        while True:
            before = at()
            try:
                return self._waited(work, at)
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
                failures = 0 if at() > before else failures + 1
                if failures == TRIES or not (failures == 0 or is_transient(error)):
                    raise explained(error, self.repo, self.endpoint, with_token=bool(self._token)) from error
                self._waited(lambda: time.sleep(PAUSE), at)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
                raise SafelightError(
                    f"{self.endpoint} does not send a list of files. If this network asks for a password, open a web "
                    "page first, then try again"
                ) from error

    def _waited(self, work: Callable[[], T], at: Callable[[], int]) -> T:
        """Returns what ``work`` does in a thread, and reports meanwhile; a flag ends the wait, and not the thread."""
        done: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

        def run() -> None:
            try:
                done.put((work(), None))
            except Exception as error:
                done.put((None, error))

        self.counter.tick(at())
        threading.Thread(target=run, name="safelight-hub", daemon=True).start()
        began, first = time.monotonic(), at()
        grown, last = began, first
        while True:
            try:
                result, error = done.get(timeout=POLL_SECONDS)
            except Empty:
                now = time.monotonic()
                if at() != last:
                    grown, last = now, at()
                self.counter.tick(last, is_late=last == first and now - began > SOON)
                if now - grown > GIVE_UP:
                    raise httpx2.ReadTimeout("nothing came for long") from None
                continue
            if error is not None:
                raise error
            return cast(T, result)


class _Body(httpx2.SyncByteStream):
    """The body of an answer that is no file: so many bytes, within so many seconds."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._stream, self._host, self._ends = answer.stream, answer.url.host, time.monotonic() + BODY_SECONDS
        self._is_needless = answer.status_code not in (200, 206)  # the head of a refusal says enough

    def __iter__(self) -> Iterator[bytes]:
        left = BODY_BYTES
        for piece in () if self._is_needless else cast(httpx2.SyncByteStream, self._stream):
            left -= len(piece)
            if left < 0:
                raise SafelightError(f"{self._host} sends a list of over {BODY_BYTES:,} bytes; check the address")
            if time.monotonic() > self._ends:
                raise httpx2.ReadTimeout("too slow")
            yield piece

    def close(self) -> None:
        cast(httpx2.SyncByteStream, self._stream).close()


def _bound(answer: httpx2.Response) -> None:
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise httpx2.ReadError("compressed, which was not requested")
    if answer.status_code not in (200, 206) or answer.url.path.startswith("/api/"):
        answer.stream = _Body(answer)


def _client(*, uses_proxies: bool) -> httpx2.Client:
    """Returns the HTTP client that the library uses: nothing is unpacked, and what is no file is bounded."""
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [_bound]}
    plain = {"Accept-Encoding": "identity"}
    try:
        return httpx2.Client(
            event_hooks=hooks, headers=plain, timeout=SECONDS, follow_redirects=True, max_redirects=5,
            trust_env=uses_proxies,
        )  # fmt: skip
    except (ValueError, ImportError, httpx2.InvalidURL):  # without their packages some proxies are not spoken
        raise proxy_error() from None
