"""The separate process for jobs that may take any time on hostile text: drawing formulas and lexing programs.

``python -m app.chat.markdown_view.slow`` reads jobs from standard input, one a line, and answers each with a
line, in order. An empty line before the first answer says that it is ready. It ends when its input does. Knows no Qt.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
from dataclasses import astuple, dataclass
from typing import Any

from app.chat.markdown_view.highlight import Part, parts
from app.chat.markdown_view.typeset import DrawnFormula, typeset

MEMORY = 1_500_000_000  # bytes of address space, where the system can limit it
SECONDS = 1.0
"""Processor time for a job, after which the process ends; waiting on a busy machine does not count."""
PATIENCE = 5.0  # seconds of wall time after which it ends, for systems without a processor timer

Parts = tuple[tuple[int, int, Part], ...]


@dataclass(frozen=True)
class FormulaRequest:
    """A job: LaTeX to be drawn as a ``DrawnFormula``."""

    source: str
    displayed: bool


@dataclass(frozen=True)
class ProgramRequest:
    """A job: a program whose parts are to be classified."""

    text: str
    language: str


Job = FormulaRequest | ProgramRequest
Result = DrawnFormula | Parts


def written(job: Job) -> bytes:
    """Returns a job as a line of the protocol."""
    return json.dumps([type(job).__name__, *astuple(job)]).encode() + b"\n"


def read(line: bytes) -> Result | None:
    """Returns the result in an answer; None if the job failed. Raises ValueError if the line is not an answer."""
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
    """Ends the process after ``seconds`` more of processor time; 0 removes the limit."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main() -> None:
    """Answers jobs until the input ends."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # a lower limit may already be set
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A bundled program without a console has no ``sys.stdin``. Output of libraries must not mix with the answers.
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    os.dup2(silence.fileno(), 1)
    # The imports of the first job of each kind must not count towards a job's time.
    for warm_up in (FormulaRequest("x", False), ProgramRequest("x", "python")):
        _answer(written(warm_up))
    answers.write(b"\n")
    answers.flush()
    for line in jobs:
        _limit(SECONDS)
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=silence)
        try:
            said = json.dumps(_answer(line))
        except Exception:  # such as out of memory or nested too deep: the job has failed
            said = "null"
        faulthandler.cancel_dump_traceback_later()
        _limit(0.0)
        answers.write(said.encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
