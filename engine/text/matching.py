"""Matchers of grammars, in processes that are ended if they take too much time or memory. See ``matcher_process``.

A process serves one answer at a time, so that ending it affects only that answer. It is kept for the next one: reading
a vocabulary of 262 144 tokens takes more than a second.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import IO, Any

import psutil

from engine.errors import SafelightError
from engine.types import Cancel

START_SECONDS = 60.0
"""Seconds of wall time within which a process must have read its vocabulary."""
ANSWER_SECONDS = 5.0
"""Seconds of the processor that an answer may take of its process at once."""
TOKEN_SECONDS = 0.02  # added with each token, up to ANSWER_SECONDS
JOB_SECONDS = 60.0  # of wall time for a job, in case the process gets no processor time
MEMORY = 2**30  # bytes
MAX_IDLE_PROCESSES, KEPT_MEMORY = 1, 100 * 2**20  # idle processes kept; bytes above a process's size at its start
POLL_SECONDS = 0.05
OPTION = "--match"
"""The argument with which the bundled program becomes this process."""
TOO_COMPLEX = "it is too complex; make it simpler"
NOT_READY = "the process for formats does not start; try again, or restart Safelight"

Encode = Callable[[bytes], list[int]]


class MatchingEndedError(SafelightError):
    """The process ended, or was ended: its grammar takes more than an answer may, or the run was cancelled."""


class Matcher:
    """The progress of a text under a grammar; after an ``error`` nothing more is matched."""

    def __init__(self, process: MatcherProcess, number: int, state: Mapping[str, Any]) -> None:
        self._process, self._number = process, number
        self._note(state)

    def _note(self, state: Mapping[str, Any]) -> None:
        self.error: str = state.get("error", "")
        self.is_accepting: bool = state.get("is_accepting", False)
        self.is_stopped: bool = state.get("is_stopped", True)

    def count(self, ids: Sequence[int]) -> int:
        return int(self._ask("count", 0, list(ids)))

    def take(self, ids: Sequence[int]) -> int:
        """Moves on by tokens that fit; returns how many were taken."""
        taken = int(self._ask("take", 0, list(ids)))
        self._process.allow(taken)
        return taken

    def forced(self) -> list[int]:
        """Returns the tokens that must come next."""
        return list(self._ask("forced", ()))

    def mask(self) -> bytes:
        """Returns the tokens that may come next as bits, the first token in the lowest; empty after an error."""
        return base64.b64decode(self._ask("mask", ""))

    def nearest(self, ids: Sequence[int]) -> list[int]:
        """Returns the tokens that begin the shortest paths to one of these tokens; empty if none is found soon."""
        return list(self._ask("nearest", (), list(ids)))

    def _ask(self, name: str, otherwise: Any, *more: Any) -> Any:
        state = self._process.ask(name, self._number, *more)
        self._note(state)
        return otherwise if self.error else state["value"]


class MatcherProcess:
    """A process, and the budget that the present answer has left.

    Args:
        vocabulary: its first line of input. encode: bytes to tokens.

    Raises:
        SafelightError: it cannot be started.
    """

    def __init__(self, vocabulary: bytes, encode: Encode, cancel: Cancel | None) -> None:
        self._encode, self._cancel = encode, cancel
        self._read = b""
        self._seconds = 0.0  # of the processor, used up to its last answer
        self._left = START_SECONDS
        self._owner = os.getpid()
        try:
            self._process = subprocess.Popen(
                _program(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise SafelightError(f"the process for formats cannot be started ({error.strerror}); try again") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._answers = self._process.stdin, self._process.stdout
        self._is_ready = False
        with self._whole():
            self._line()
            self._write(vocabulary)
            self._answer()
        self._is_ready = True
        self._least_memory = self._memory()

    def start_answer(self, cancel: Cancel | None) -> None:
        """Starts to serve a new answer, until ``cancel`` is set."""
        self._cancel, self._left = cancel, ANSWER_SECONDS

    def allow(self, tokens: int) -> None:
        """Extends the budget after the answer has become longer."""
        self._left = min(ANSWER_SECONDS, self._left + tokens * TOKEN_SECONDS)

    def make(self, kind: str, source: str, style: Mapping[str, Any] | None = None) -> Matcher:
        """Makes a matcher at the beginning of a text.

        Args:
            kind: of the source: "lark", or "json" for a schema. style: of the JSON.
        """
        state = self.ask("make", kind, source, style)
        return Matcher(self, state["value"], state)

    def ask(self, *job: Any) -> dict[str, Any]:
        """Sends a job and returns its answer.

        Raises:
            MatchingEndedError: it takes too long or too much, or the answer is cancelled; the process is ended.
        """
        if self._left <= 0:
            self._end()
        with self._whole():
            self._write(json.dumps(job).encode() + b"\n")
            return self._answer()

    def forget(self) -> bool:
        """Drops the answer's matchers; returns True if the process can serve another one."""
        try:
            self.start_answer(None)
            self.ask("forget")
            return self._memory() <= self._least_memory + KEPT_MEMORY
        except MatchingEndedError:
            return False

    @property
    def is_usable(self) -> bool:
        """True if it runs and belongs to this process: a forked child has none of its own."""
        return self._owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        for stream in (self._jobs, self._answers):
            with contextlib.suppress(OSError):
                stream.close()

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Ends the process on any exception: its pending output would be taken for another answer."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _answer(self) -> dict[str, Any]:
        while True:
            answer = json.loads(self._line())
            if isinstance(answer, dict):
                break
            self._write(json.dumps(self._encode(answer.encode("latin-1"))).encode() + b"\n")
        self._left -= answer["seconds"] - self._seconds
        self._seconds = answer["seconds"]
        return answer

    def _write(self, line: bytes) -> None:
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._jobs.write(rest) :]
        except (OSError, ValueError):
            self._end()

    def _line(self) -> bytes:
        """Returns the next line; waits for it, and watches the process meanwhile."""
        ends = time.monotonic() + (JOB_SECONDS if self._is_ready else START_SECONDS)
        while b"\n" not in self._read:
            if not self._wait(ends):
                self._end()
            try:
                part = os.read(self._answers.fileno(), 2**20)
            except (OSError, ValueError):
                part = b""
            if not part:
                self._end()
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _wait(self, ends: float) -> bool:
        """Waits for something to read; False if the process must be ended."""
        while not _has_come(self._answers, POLL_SECONDS):
            if (self._cancel is not None and self._cancel.is_set()) or time.monotonic() > ends:
                return False
            try:
                if self._memory() > MEMORY or self._processor_seconds() - self._seconds > self._left:
                    return False
            except psutil.Error:
                return True  # it has ended, which the next read reports
        return True

    def _memory(self) -> int:
        """Returns the bytes of its memory; 0 if it has ended."""
        try:
            return int(psutil.Process(self._process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def _processor_seconds(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def _end(self) -> None:
        self.close()
        raise MatchingEndedError(TOO_COMPLEX if self._is_ready else NOT_READY)


class MatcherPool:
    """Processes of one vocabulary. They end with it."""

    def __init__(self, tokens: Sequence[bytes], special: Sequence[int], ends: Sequence[int], encode: Encode) -> None:
        self._tokens, self._special, self._ends, self._encode = tokens, special, ends, encode
        self._kept: list[MatcherProcess] = []
        weakref.finalize(self, _close, self._kept)

    def lend(self, cancel: Cancel | None) -> MatcherProcess:
        """Lends a process for an answer; from any thread.

        Raises:
            SafelightError: none can be started. MatchingEndedError: the answer was cancelled.
        """
        while True:
            try:
                process = self._kept.pop()
            except IndexError:
                process = MatcherProcess(self._vocabulary(), self._encode, cancel)
            if process.is_usable:
                process.start_answer(cancel)
                return process
            process.close()

    def give_back(self, process: MatcherProcess) -> None:
        """Takes back a process after its answer."""
        if len(self._kept) < MAX_IDLE_PROCESSES and process.is_usable and process.forget():
            self._kept.append(process)
        else:
            process.close()

    def _vocabulary(self) -> bytes:
        vocabulary = {
            "tokens": [written.decode("latin-1") for written in self._tokens],
            "special": self._special,
            "ends": self._ends,
        }
        return json.dumps(vocabulary).encode() + b"\n"


def _close(kept: Sequence[MatcherProcess]) -> None:
    for process in kept:
        process.close()


def _program() -> list[str]:
    """Returns the command of a process: Python, or in a bundle the program itself."""
    if getattr(sys, "frozen", False):
        return [sys.executable, OPTION]
    # -P: nothing is imported from this folder
    return [sys.executable, "-P", str(Path(__file__).with_name("matcher_process.py"))]


def _has_come(stream: IO[bytes], seconds: float) -> bool:
    """Waits for something to read, or the end; returns True if it came."""
    if sys.platform != "win32":
        return bool(connection.wait([stream.fileno()], seconds))
    import _winapi  # Windows cannot wait for a pipe between processes
    import msvcrt

    ends = time.monotonic() + seconds
    while True:
        try:
            if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(stream.fileno()), 0)[0]:
                return True
        except OSError:
            return True
        if time.monotonic() >= ends:
            return False
        time.sleep(0.0005)
