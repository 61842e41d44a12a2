"""The ``safelight`` command: parses, runs a subcommand, and turns every failure into one line.

A subcommand is a module with ``add(commands)``, which adds its parser and sets ``run``; ``COMMANDS`` lists them.

Exit codes: 0 done, 1 unexpected failure, 2 bad input or no display, 130 stopped by Ctrl+C, 141 the reader of the output
has closed it. Knows neither Qt nor torch: both are imported by the subcommand, after the arguments are checked.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
import traceback

from app.cli import (
    bench,
    decide,
    doctor,
    download,
    export,
    generate,
    infill,
    mcp,
    models,
    plan,
    quantize,
    race,
    serve,
    sudoku,
    terminal,
    train,
    tune,
    window,
)
from app.cli.options import Parser, number, place
from engine import SafelightError
from engine.config import LARGEST_SEED
from engine.errors import spoken
from engine.trace.header import app_version

COMMANDS = (
    generate,
    infill,
    decide,
    sudoku,
    race,
    tune,
    serve,
    mcp,
    train,
    models,
    download,
    plan,
    quantize,
    bench,
    doctor,
    export,
)  # in the order of --help
DESCRIPTION = """\
Run diffusion language models on your own machine and watch the text develop.
Without a command, safelight opens its window."""
EPILOG = """\
examples:
  safelight                                             the window
  safelight generate "Reverse the word robot." --watch  watch an answer develop in the terminal
  safelight infill "2 4 6 [[...]] 10 12"                what stands in the gap of a text
  safelight decide "The number is 51." --yes-no "Is the number even?"    a typed answer, with its probability
  safelight sudoku --make 5 --givens 40-50 > puzzles.txt   fresh puzzles
  safelight sudoku --file puzzles.txt --json            solve them, one JSON object a line
  safelight race "Reverse the word robot." --model safelight-masked    the same prompt by several decoders
  safelight tune --sudoku                               the fewest steps without losing right answers
  safelight serve                                       an OpenAI-compatible server on this machine
  safelight mcp                                         tools of Claude Desktop, Codex, Cursor
  safelight train sudoku --out runs/adapter             teach a model Sudoku
  safelight models                                      the models on this computer, by name
  safelight download ORG/NAME                           a model from Hugging Face
  safelight plan 26b-a4b                                how much memory a model takes
  safelight quantize safelight-mini packed            pack a model into 4 bits
  safelight bench                                       how fast this machine is
  safelight doctor                                      whether it computes right
  safelight export assets/traces/count.sltrace run.html    a recorded run as a page that replays anywhere

safelight COMMAND --help shows its options. Results go to standard output, everything else to standard error.
"""


def parser() -> Parser:
    """Returns the parser of the whole command line."""
    root = Parser(prog="safelight", description=DESCRIPTION, epilog=EPILOG)
    root.add_argument("--version", action="version", version=f"safelight {app_version() or '(not installed)'}")
    root.add_argument(
        "--model", dest="window_model", type=place, metavar="DIR_OR_ID", help="the model to open the window with"
    )
    root.add_argument(
        "--seed",
        dest="window_seed",
        type=number("the seed", 0, LARGEST_SEED),
        metavar="N",
        help="the seed to open the window with",
    )
    root.add_argument("--self-test", dest="self_test", metavar="PROMPT", help=argparse.SUPPRESS)
    root.set_defaults(run=window.run)
    commands = root.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        command.add(commands)
    return root


def main(argv: list[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    terminal.prepare_streams()
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except SafelightError as error:
        terminal.say(str(error))
        return 2
    except KeyboardInterrupt:
        terminal.say("stopped")
        return 130
    except BrokenPipeError:
        _drop_stdout()
        return 141
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            _drop_stdout()
            terminal.say("the disk is full; the output could not be written")
            return 1
        if os.environ.get("SAFELIGHT_DEBUG"):
            traceback.print_exc()
        terminal.say(f"something went wrong: {spoken(error)} (run with SAFELIGHT_DEBUG=1 for details)")
        return 1


def _run(argv: list[str] | None) -> int:
    try:
        args = parser().parse_args(argv)
    except SystemExit as leaving:  # --help and --version
        return leaving.code if isinstance(leaving.code, int) else 0
    return int(args.run(args))


def _drop_stdout() -> None:
    """Redirects standard output to null after its reader closed it, since the interpreter's last flush would fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
