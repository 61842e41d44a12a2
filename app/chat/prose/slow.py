"""What may take any time on hostile text, done in a process of its own: formulas drawn, programs told apart.

``python -m app.chat.prose.slow`` reads jobs from standard input, one a line, and answers each with a line, in order.
Before the first it says that it is ready with an empty line. It ends when its input does. Knows no Qt.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
from dataclasses import astuple, dataclass
from typing import Any

from app.chat.prose.highlight import Part, parts
from app.chat.prose.typeset import DrawnFormula, typeset

MEMORY = 1_500_000_000  # bytes of address space, where the system can hold a process to it
SECONDS = 1.0
"""Of the processor for a job, after which the process ends, whatever it is in; a busy machine does not count."""
PATIENCE = 5.0  # seconds on the clock, after which it ends also where a system has no such timer

Parts = tuple[tuple[int, int, Part], ...]


@dataclass(frozen=True)
class FormulaRequest:
    """LaTeX to be drawn as a ``DrawnFormula``."""

    source: str
    displayed: bool


@dataclass(frozen=True)
class ProgramRequest:
    """Code whose parts are wanted."""

    text: str
    language: str


Job = FormulaRequest | ProgramRequest
Result = DrawnFormula | Parts


def written(job: Job) -> bytes:
    """A job as a line."""
    return json.dumps([type(job).__name__, *astuple(job)]).encode() + b"\n"


def read(line: bytes) -> Result | None:
    """The result in an answer; None where there is none. Raises ValueError where the line is no answer."""
    raw = json.loads(line)
    if not raw:
        return None
    if isinstance(raw, dict):
        return DrawnFormula(raw["svg"].encode(), raw["width"], raw["height"], raw["descent"])
    return tuple((start, length, part) for start, length, part in raw)


def _answer(line: bytes) -> Any:
    kind, *rest = json.loads(line)
    if kind == ProgramRequest.__name__:
        return parts(*rest)
    picture = typeset(*rest)
    return None if picture is None else {**vars(picture), "svg": picture.svg.decode()}


def _limit(seconds: float) -> None:
    """End the process once it has used so much more of the processor; 0 lifts the limit."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main() -> None:
    """Serve until the input ends."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # a lower limit may stand already
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A bundle's program without a console has no ``sys.stdin``; what a library prints must not come between answers.
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    os.dup2(silence.fileno(), 1)
    # What is imported for the first of a kind counts to no job.
    for warm_up in (FormulaRequest("x", False), ProgramRequest("x", "python")):
        _answer(written(warm_up))
    answers.write(b"\n")
    answers.flush()
    for line in jobs:
        _limit(SECONDS)
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=silence)
        try:
            said = json.dumps(_answer(line))
        except Exception:  # out of memory, nested too deep: not understood
            said = "null"
        faulthandler.cancel_dump_traceback_later()
        _limit(0.0)
        answers.write(said.encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
