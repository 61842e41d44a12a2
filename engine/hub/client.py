"""Lists a repository and receives its files by ``huggingface_hub``, within bounds that the library does not have.

The library's own download begins a stopped file anew, so its ``http_get`` is given the incomplete file to go on with.
A thread does it, which a stalled network may hold for ten seconds more: a stopped download leaves it behind, and it
writes no more. Neither the hub nor a proxy that answers in its place is trusted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import httpx2
from huggingface_hub import constants  # by their modules: a bundle is made of the imports that are seen
from huggingface_hub.file_download import _create_symlink, hf_hub_url, http_get
from huggingface_hub.hf_api import HfApi
from huggingface_hub.utils._auth import get_token
from huggingface_hub.utils._fixes import WeakFileLock
from huggingface_hub.utils._http import close_session, set_client_factory

from engine import hub_http, windows
from engine.errors import SafelightError
from engine.hub.record import DownloadProgress, Record, RemoteFile, Stage, is_wanted, matches, size_of
from engine.hub_cache import cache_folder, repo_folder
from engine.types import Cancel

GIVE_UP = 70.0  # seconds without one of a file, while the library tries again; or for a list, or a head without end
RECEIVED_BYTES = 2**16  # bytes received at once; the library's ten million come in jumps, and the last would be lost
POLL_SECONDS = 0.1  # between two reports, and two looks at the flag
SOON = 0.7  # seconds until a missing answer is reported as waited for
SPEED_SECONDS = 3.0  # time span over which the speed is measured

T = TypeVar("T")


class Client:
    """One repository. ``endpoint`` None is that of the library, and ``token`` None its token.

    Reports how much of ``record`` and of its ``file`` is here; raises ``CancelledError`` once ``stop`` is set.
    """

    def __init__(self, repo: str, endpoint: str | None, token: str | None, stop: Cancel) -> None:
        if constants.is_offline_mode():
            raise SafelightError("HF_HUB_OFFLINE forbids downloads; unset this variable and start again")
        endpoint, token = endpoint or os.environ.get("HF_ENDPOINT"), token or get_token()
        self._api = HfApi(endpoint, token=token, library_name="safelight")
        self._stop = stop
        self.record, self.file = Record(repo, "0" * 40, ()), RemoteFile("config.json", 0, "0" * 40)
        self._samples: list[tuple[float, int]] = []  # seconds, bytes
        constants.DOWNLOAD_CHUNK_SIZE = RECEIVED_BYTES
        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # the library logs addresses that are signed
        hooks: Any = {"request": [lambda _: self._check()], "response": [hub_http.bounded]}
        set_client_factory(lambda: hub_http.open_client(event_hooks=hooks))
        close_session()  # the proxies may be others by now

    def wait_for(self, work: Callable[[], T], report: Callable[[DownloadProgress], None]) -> T:
        """Returns what ``work`` does in a thread, and reports meanwhile, also while nothing arrives.

        Goes on as long as bytes come; the library itself tries again where nobody answers.

        Raises:
            SafelightError: the hub refuses, or the network is gone for long.
            OSError: a file cannot be written.
        """
        done: Future[T] = Future()

        def run() -> None:
            while not done.done():
                before = self._received()
                try:
                    done.set_result(work())
                except Exception as error:
                    from_hub = isinstance(error, hub_http.FAULTS) and getattr(error, "errno", None) is None
                    if not from_hub or self._received() <= before:
                        done.set_exception(self._explained(error) if from_hub else error)

        self._check()
        grown, first = time.monotonic(), self._received()
        last = first
        threading.Thread(target=run, name="safelight-hub", daemon=True).start()
        while not done.done():
            now, here = time.monotonic(), self._received()
            if here != last:
                grown, last = now, here
            stage: Stage = "checking" if here == self.file.bytes > 0 else "downloading"
            if stage == "downloading" and now - grown > GIVE_UP:
                raise self._explained(httpx2.ReadTimeout(""))
            if stage == "downloading" and last == first and now - grown > SOON:
                stage = "waiting"
            if self.record.files or stage == "waiting":
                report(self._progress(stage, now))
            wait((done,), POLL_SECONDS)
            if self._stop.is_set():
                wait((done,), POLL_SECONDS)  # so that it has closed its file, unless nothing arrives
                raise CancelledError
        return done.result()

    def listing(self) -> Record:
        """Returns the files that a model needs and the cache has not, with sizes and hashes."""
        repo = self.record.repo
        info = self._api.model_info(repo, timeout=hub_http.SECONDS, files_metadata=True)
        needed = [each for each in cast(Any, info.siblings) if is_wanted(each.rfilename)]
        files = [RemoteFile(f.rfilename, f.size, f.lfs.sha256 if f.lfs else f.blob_id) for f in needed]
        if not any(file.name == "config.json" for file in files) or not any(file.is_weights for file in files):
            raise SafelightError(f"{repo} holds no model that Safelight reads: config.json with safetensors")
        whole = Record(repo, cast(str, info.sha), tuple(sorted(files, key=lambda file: (file.is_weights, file.bytes))))
        return Record(repo, whole.revision, tuple(file for file in whole.files if not whole.has(file)))

    def fetch(self) -> None:
        """Completes ``file``, verifies it, and puts it into the cache; fetches a damaged one once more."""
        file, part, pointer = self.file, self.record.part(self.file), self.record.snapshot / self.file.name
        blob, locks = part.with_suffix(""), cache_folder() / ".locks" / repo_folder(self.record.repo).name
        for folder in (blob.parent, pointer.parent, locks):
            folder.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(locks / f"{file.hash}.lock", timeout=2 * hub_http.SECONDS):  # as the library does
            is_new = not blob.exists()
            if is_new:
                if not self._is_whole() and not self._is_whole():
                    raise SafelightError(f"{file.name} arrived damaged twice and was removed. Resume later")
                windows.retried(os.replace, part, blob)
            _create_symlink(str(blob), str(pointer), new_blob=is_new)  # moves it where there are no links

    def _is_whole(self) -> bool:
        """Returns True if the file arrived as it is listed; else what arrived is removed."""
        file, part, headers = self.file, self.record.part(self.file), self._api._build_hf_headers()
        url = hf_hub_url(self.record.repo, file.name, revision=self.record.revision, endpoint=self._api.endpoint)
        with open(windows.reachable(part), "ab") as out:

            def bound(count: int) -> None:
                self._check()
                if out.tell() + count > file.bytes:
                    raise OSError("more bytes than were listed")

            start, bar = out.seek(0, os.SEEK_END), cast(Any, SimpleNamespace(update=bound))  # before each write
            if start < file.bytes:
                http_get(url, out, resume_size=start, headers=headers, expected_size=file.bytes, _tqdm_bar=bar)
            out.flush()
            os.fsync(out.fileno())
        if matches(part, file.hash, lambda _count: self._check()):
            return True
        part.unlink()
        return False

    def _check(self) -> None:
        if self._stop.is_set():
            raise CancelledError

    def _received(self) -> int:
        return size_of(self.record.part(self.file))

    def _progress(self, stage: Stage, now: float) -> DownloadProgress:
        done, total, file = self.record.done_bytes, self.record.total_bytes, self.file
        kept = [each for each in self._samples if now - each[0] <= SPEED_SECONDS and each[1] <= done]
        self._samples = [*kept, (now, done)]
        first, least = self._samples[0]
        speed = (done - least) / (now - first) if kept else 0.0
        return DownloadProgress(stage, file.name, self._received(), file.bytes, done, total, speed)

    def _explained(self, error: Exception) -> SafelightError:
        return hub_http.explained(error, self.record.repo, self._api.endpoint, with_token=bool(self._api.token))
