"""Terminal output: consoles, notes, progress, tables and Sudoku boards. Runs nothing, knows no model.

Escape codes go to terminals only, and not when NO_COLOR is set; no information is in colour alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from app.state.sudoku.board import verdict
from app.system.windows_start import enable_escape_codes
from engine import windows

CLEAR_LINE = "\r\x1b[2K"
MAX_COLUMNS = 72  # columns of text
PIPED_COLUMNS = 120


def can_style(stream: TextIO) -> bool:
    """True if escape codes may be written to a stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class _Console(Console):
    """A console that raises BrokenPipeError as plain printing does; rich would end the program with status 1.

    Texts, which may be names of a stranger, send it no escape codes; rich lets them through.
    """

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def console(stream: TextIO) -> Console:
    """Returns a console that writes to ``stream`` without reformatting, with styles only if they are allowed."""
    styled = can_style(stream)
    return _Console(
        file=stream,
        force_terminal=styled,
        force_interactive=styled,
        no_color=not styled,
        highlight=False,
        emoji=False,
        markup=False,
        width=None if stream.isatty() else PIPED_COLUMNS,
    )


def prepare_streams() -> None:
    """Makes streams replace characters that they cannot encode, and discard output if they are closed.

    On Windows a console accepts all characters, and a pipe or a file only those of an old code page, as cp1252: it gets
    UTF-8 as on every other system, unless PYTHONIOENCODING sets another encoding.
    """
    if not enable_escape_codes():
        os.environ["NO_COLOR"] = "1"  # for rich, too
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, or None in a windowed program
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            is_old = windows.IS_WINDOWS and not stream.isatty() and not os.environ.get("PYTHONIOENCODING")
            stream.reconfigure(encoding="utf-8" if is_old else None, errors="replace")


def say(message: str) -> None:
    """Prints a line to the user on standard error, if it is open."""
    with contextlib.suppress(OSError, ValueError):
        print(f"safelight: {printable(' '.join(message.split()))}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Prints a text on standard output: as it is, but for what a terminal would obey."""
    print(printable(text) if sys.stdout.isatty() else text, flush=True)


@contextmanager
def note(text: str) -> Iterator[None]:
    """Shows a line on standard error during slow work; only on a terminal, and erased afterwards."""
    stream, text = sys.stderr, printable(text)
    if not stream.isatty():
        yield
        return
    erase = can_style(stream)
    stream.write(text if erase else f"{text}\n")
    stream.flush()
    try:
        yield
    finally:
        if erase:
            stream.write(CLEAR_LINE)
            stream.flush()


@contextmanager
def progress(title: str) -> Iterator[Callable[[float], None]]:
    """Shows a bar on standard error if it is a terminal, and erases it afterwards; yields what takes the share that is
    done, 0 to 1."""
    with Progress(console=console(sys.stderr), transient=True, disable=not can_style(sys.stderr)) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def printable(text: str) -> str:
    """Returns the text with control characters, except line breaks and tabs, replaced by visible ones."""
    return "".join(ch if ch in "\n\t" or ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in text)


def table(title: str, *columns: str) -> Table:
    """Returns an empty table with hairlines only; its first column is text, the others are numbers."""
    frame = Table(title=title, box=None, pad_edge=False, title_justify="left", title_style="bold", header_style="dim")
    for index, column in enumerate(columns):
        frame.add_column(column, justify="right" if index else "left", no_wrap=True)
    return frame


def boards(puzzle: str, answer: str) -> Text:
    """Draws a puzzle and the model's answer side by side; ``!`` marks the cells that the verdict names."""
    wrong, text = set(verdict(puzzle, answer).wrong), Text()
    for row in range(9):
        if row and row % 3 == 0:
            rule = "+".join(["-" * 7] * 3)
            text.append(f"{rule}      {rule}\n", style="dim")
        for board, marks in ((puzzle, set()), (answer, wrong)):
            for column in range(9):
                cell = 9 * row + column
                if column and column % 3 == 0:
                    text.append(" |", style="dim")
                text.append("!" if cell in marks else " ", style="red")
                given = puzzle[cell] != "0"
                style = "reverse" if cell in marks else "bold" if given else "dim" if board[cell] in "0." else ""
                text.append("." if board[cell] == "0" else board[cell], style=style)
            text.append("   →   " if board is puzzle and row == 4 else "       " if board is puzzle else "\n")
    return text
