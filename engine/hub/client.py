"""Asks a hub for the list of a repository's files and for their bytes, patiently. Knows no model.

Built on huggingface_hub's session, errors and addresses. Its own downloader is not used: since version 2 it forgets a
partial file when the process ends, and it looks at its progress hook only every 10 MB. Files come over plain HTTP,
where a range can be asked for; xet is never started, and nothing but these requests is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # before the import, which reads it

from huggingface_hub import HfApi, close_session, constants, get_session, hf_hub_url
from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined, unused-ignore]

from engine.errors import SafelightError
from engine.hub import faults
from engine.hub.record import Record, RemoteFile
from engine.hub.tally import Tally

constants.HF_HUB_DISABLE_TELEMETRY = True  # where another library imported it first

WANTED = (
    "config.json", "generation_config.json", "tokenizer*.json", "chat_template.jinja", "*.safetensors",
    "*.safetensors.index.json",
)  # fmt: skip
AGENT = "safelight"
TIMEOUT = 10.0  # seconds without a byte; also how long a silent server can hold up a pause
LONGEST_WAIT = 30.0  # seconds between two tries

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """How often what brings nothing is tried, and the first wait in seconds; each next one is twice as long."""

    tries: int = 6
    first_wait: float = 1.0


@contextmanager
def session() -> Iterator[None]:
    """Leaves no connection open behind."""
    try:
        yield
    finally:
        close_session()


@dataclass(frozen=True)
class Hub:
    """One repository of one hub. ``endpoint`` None is the hub that huggingface_hub is set to."""

    repo: str
    endpoint: str | None = None
    token: str | None = None
    patience: Patience = Patience()

    @property
    def address(self) -> str:
        return (self.endpoint or constants.ENDPOINT).rstrip("/")

    def listing(self, tally: Tally) -> Record:
        """The files that a model needs, with sizes and hashes.

        Raises:
            SafelightError: no network, no such repository, one that is closed, or one that holds no model.
            StoppedError: a flag was set.
        """
        api = HfApi(endpoint=self.address, token=self.token or False, library_name=AGENT)
        info = self._patiently(
            lambda: api.model_info(self.repo, files_metadata=True, timeout=TIMEOUT), lambda: 0, tally
        )
        files = []
        for sibling in info.siblings or []:
            name = sibling.rfilename
            if any(fnmatch(name, pattern) for pattern in WANTED) and not set("/\\") & set(name):
                size, lfs = sibling.size, sibling.lfs
                if size is None or not (lfs or sibling.blob_id):
                    raise SafelightError(f"{self.address} lists {name} without size and hash, so it cannot be verified")
                files.append(RemoteFile(name, size, lfs.sha256 if lfs else "", "" if lfs else str(sibling.blob_id)))
        names = {file.name for file in files}
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            raise SafelightError(f"{self.repo} holds no model that Safelight reads: config.json with safetensors")
        files.sort(key=lambda file: file.bytes)  # what is small first, so that what is wrong shows early
        return Record(self.repo, info.sha or constants.DEFAULT_REVISION, tuple(files))

    def fetch(self, file: RemoteFile, revision: str, part: Path, tally: Tally) -> None:
        """Bring ``part`` to the file's size, from the byte where it ends; drops of the connection are sat out.

        Raises:
            SafelightError: the hub refuses, the network is gone for long, or the disk does not take it.
            StoppedError: a flag was set; what came in stays.
        """

        def here() -> int:
            return part.stat().st_size if part.exists() else 0

        url = hf_hub_url(self.repo, file.name, revision=revision, endpoint=self.address)
        self._patiently(lambda: self._stream(url, part, file.bytes, tally), here, tally)

    def _stream(self, url: str, part: Path, size: int, tally: Tally) -> None:
        """One request's worth of bytes, written as they come."""
        start = part.stat().st_size if part.exists() else 0
        if start == size and part.exists():
            return
        headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"  # the session keeps it from other hosts on a redirect
        if start:
            headers["Range"] = f"bytes={start}-"
        with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT) as response:
            answered = response.headers.get("Content-Range", f"bytes {start}-")
            goes_on = response.status_code == 206 and answered.startswith(f"bytes {start}-")
            if response.status_code != 416:  # else the part is no beginning of the file: from zero again
                hf_raise_for_status(response)
            try:
                with part.open("ab" if goes_on or not start else "wb", buffering=0) as out:
                    if start and not goes_on:
                        tally.add(-start)
                        start = 0
                    if response.status_code in (200, 206) and (goes_on or response.status_code == 200):
                        for chunk in response.iter_bytes():
                            chunk = chunk[: size - start]  # what is too much shows in the hash
                            out.write(chunk)
                            start += len(chunk)
                            tally.add(len(chunk))
                            if start == size:
                                break
                        os.fsync(out.fileno())
            except faults.FAULTS:
                raise
            except OSError as error:
                raise faults.disk(error, str(part.parent)) from error
        if start != size:
            raise faults.DroppedError

    def _patiently(self, work: Callable[[], T], here: Callable[[], int], tally: Tally) -> T:
        """Try until it works; only tries that bring nothing count."""
        tries = 0
        while True:
            tally.look()
            before = here()
            try:
                return work()
            except faults.FAULTS as error:
                tries = 1 if here() > before else tries + 1
                if not faults.is_passing(error) or tries >= self.patience.tries:
                    raise faults.explained(error, self.repo, self.address, with_token=bool(self.token)) from error
                tally.rest(min(self.patience.first_wait * 2 ** (tries - 1), LONGEST_WAIT))
