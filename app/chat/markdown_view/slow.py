"""The separate process for jobs that may take any time on hostile text: drawing formulas and lexing programs.

``python -m app.chat.markdown_view.slow`` reads jobs from standard input, one a line, and answers each with a
line, in order. An empty line before the first answer says that it is ready. It ends when its input does. Knows no Qt.

LaTeX is drawn as SVG, without TeX; what cannot be drawn is None. ``may_be_drawn`` and ``may_be_read`` are cheap, for
the window.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import warnings
from dataclasses import astuple, dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any, Literal

MAX_FORMULA = 1_000
MAX_NESTED = 24
MAX_SVG_BYTES = 2_000_000
SIZE = 16
"""Text size in pixels that pictures are drawn for; they are scaled to others."""
INK = "#010203"
"""Placeholder in a picture for the colour it is shown in."""
_DRAWN = {"svg", "g", "path", "rect", "line", "polygon", "polyline", "circle", "ellipse"}
_OPENS = re.compile(r"\\\\|\\[{}]|([{]|\\left\b|\\begin\b)|([}]|\\right\b|\\end\b)")


_FENCED = re.compile(r"\\\\|\\(begin|end)\{(?:[pbBvV]matrix\*?|cases)\}")  # environments with brackets


@dataclass(frozen=True)
class DrawnFormula:
    """A drawn formula, in logical pixels; ``descent`` is the part of ``height`` below the baseline."""

    svg: bytes
    width: float
    height: float
    descent: float

    def shown(self, pixels: int, color: str) -> DrawnFormula:
        """Returns the picture scaled to a text size in pixels, in a colour."""
        scale = pixels / SIZE
        svg = self.svg.replace(INK.encode(), color.encode())
        return replace(
            self, svg=svg, width=self.width * scale, height=self.height * scale, descent=self.descent * scale
        )


def may_be_drawn(source: str) -> bool:
    """Returns True if a formula is short and flat enough to try."""
    if not source.strip() or len(source) > MAX_FORMULA:
        return False
    depth = 0
    for match in _OPENS.finditer(source):
        depth += 1 if match.group(1) else -1 if match.group(2) else 0
        if depth > MAX_NESTED:
            return False
    return True


def typeset(source: str, displayed: bool) -> DrawnFormula | None:
    """Returns the picture of a formula; None if the source cannot be drawn."""
    if not may_be_drawn(source):
        return None
    try:
        svg = _library().Latex(_grouped(source), size=SIZE, color=INK, inline=not displayed).svg()
    except Exception:  # any failure of the library on a model's text means that it cannot be drawn
        return None
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg)
    if box is None or len(svg) > MAX_SVG_BYTES or not set(re.findall(r"<(\w+)", svg)) <= _DRAWN:
        return None
    _, top, width, height = (float(number) for number in box.groups())
    if not (0 < width < 20_000 and 0 < height < 5_000):
        return None
    return DrawnFormula(svg.encode(), width, height, max(0.0, top + height))


def _grouped(source: str) -> str:
    """Puts braces around each matrix: ziamath fails on an index right after a closing matrix bracket."""

    def group(match: re.Match[str]) -> str:
        written = match.group()
        return written if written == r"\\" else f"{{{written}" if match[1] == "begin" else f"{written}}}"

    return _FENCED.sub(group, source)


@cache
def _library() -> ModuleType:
    """Returns the ziamath module, configured for Qt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about how it loads its own font
        import ziamath  # takes 0.3 s, so only when a formula is drawn
        from ziamath.config import config as ziamath_config
    ziamath_config.svg2 = False  # plain paths, since Qt does not draw SVG symbols
    _measure_rows_once()
    return ziamath


def _measure_rows_once() -> None:
    """Patches ziamath so that its time does not double with each level of nesting.

    It lays out every row twice, the first time to measure it without stretchy signs, and so on for each row inside.
    Within that first pass the inner measurement only sets the size of stretchy signs, which do not count there.
    """
    from ziamath.nodes.mrow import Mrow  # as in ``_library``

    measure = Mrow._get_height_nostretch

    def measure_once(row: Mrow, line: list[Any], **options: Any) -> tuple[float, float]:
        return (0.0, 0.0) if options.get("nostretch") else measure(row, line, **options)

    Mrow._get_height_nostretch = measure_once  # type: ignore[method-assign, assignment]


Part = Literal["keyword", "text", "number", "remark", "name", "error"]

MAX_PROGRAM = 20_000
"""Longer programs stay in one colour, since lexing them takes too long."""


def may_be_read(text: str, language: str) -> bool:
    """Returns True if a program has a language and is short enough."""
    return bool(language) and len(text) <= MAX_PROGRAM


def parts(text: str, language: str) -> tuple[tuple[int, int, Part], ...]:
    """Returns (start, length, part) of all text that is not plain, in order. Empty for an unknown language."""
    if not may_be_read(text, language):
        return ()
    # Only ``slow``'s process needs pygments; the window imports this module for ``may_be_read``.
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Token
    from pygments.util import ClassNotFound

    kinds: tuple[tuple[object, Part], ...] = (
        (Token.Comment, "remark"),
        (Token.Keyword.Constant, "number"),
        (Token.Keyword, "keyword"),
        (Token.Operator.Word, "keyword"),
        (Token.Literal.String, "text"),
        (Token.Literal.Number, "number"),
        (Token.Name.Function, "name"),
        (Token.Name.Class, "name"),
        (Token.Name.Tag, "keyword"),
        (Token.Name.Decorator, "name"),
        (Token.Name.Attribute, "name"),
        (Token.Generic.Deleted, "error"),
        (Token.Generic.Inserted, "text"),
        (Token.Generic.Heading, "keyword"),
        (Token.Generic.Subheading, "keyword"),
    )
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        tokens = [(start, kind, value) for start, kind, value in lexer.get_tokens_unprocessed(text) if value]
    except (ClassNotFound, RecursionError, ValueError):
        return ()
    return tuple(
        (start, len(value), part)
        for start, kind, value in tokens
        if (part := next((part for wanted, part in kinds if kind in wanted), None)) is not None  # type: ignore[operator]
    )


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
