"""``safelight export``: a recorded run as an HTML page, an animation, a picture or JSON. Runs no model."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from app.cli import options, terminal
from app.cli.options import number, place
from app.export import FORMATS
from app.export.run import FPS_HIGH, Options, Share, export, format_of, parse_steps
from app.state.run.replay import Replay
from app.system.i18n import size
from app.system.windows_start import load_torch_before_qt
from engine import Recording, open_trace

EPILOG = """\
examples:
  safelight export assets/traces/sudoku-hard.sltrace /tmp/run.html
  safelight export assets/traces/sudoku-hard.sltrace /tmp/run.gif --no-prompt --speed 8
  safelight export assets/traces/sudoku-hard.sltrace /tmp/step.png --steps 12 --scale 2
  safelight export assets/traces/sudoku-hard.sltrace /tmp/steps.gif --steps noise,1-3,end
"""


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "export",
        run,
        "turn a recorded run into a page, a film, a picture or JSON",
        "Turn a recorded run into a page that replays it, a GIF, an MP4, a PNG, or JSON.",
        EPILOG,
    )
    parser.add_argument("trace", type=place, metavar="TRACE", help="a recorded run")
    parser.add_argument("out", type=place, metavar="OUT", help="the file to write; its ending chooses the format")
    parser.add_argument("--format", choices=tuple(FORMATS), help="(default: as OUT ends)")
    parser.add_argument("--no-prompt", action="store_true", help="leave out the prompt")
    parser.add_argument(
        "--speed",
        type=options.real("the speed", 0.0, FPS_HIGH),
        default=Options().fps,
        metavar="FPS",
        help=f"frames a second of a GIF or MP4, at most {FPS_HIGH:g} (default: {Options().fps:g})",
    )
    parser.add_argument(
        "--steps",
        metavar="LIST",
        help="which steps of the last block to draw, from 1, such as 1,4-8, noise or end",
    )
    parser.add_argument("--theme", choices=("darkroom", "paper"), default="darkroom", help="(default: darkroom)")
    parser.add_argument("--scale", type=number("the scale", 1, 2), default=1, metavar="N", help="1 or 2 (default: 1)")
    parser.add_argument("--tokens", action="store_true", help="show a Sudoku by its tokens instead of as a board")
    parser.add_argument("--raw", action="store_true", help="show the noise instead of the best guesses")


def run(args: argparse.Namespace) -> int:
    out = Path(args.out)
    format = FORMATS[args.format] if args.format else format_of(out)
    trace = open_trace(Path(args.trace))
    options = Options(
        format=format.name,
        prompt=not args.no_prompt,
        theme=args.theme,
        board=not args.tokens,
        calm=not args.raw,
        scale=args.scale,
        fps=args.speed,
        frames=_frames(trace, args) if format.is_drawn else None,
    )
    painting = _painting() if format.is_drawn else None
    with terminal.note(f"Writing {out} …"):
        missing = _finish(export(trace, out, options))
    print(f"wrote {out}, {size(out.stat().st_size)}")
    if missing:
        terminal.say(missing)
    del painting
    return 0


def _finish(work: Share) -> str:
    """Runs the export to its end; returns what was left out of the file."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return str(end.value)


def _frames(trace: Recording, args: argparse.Namespace) -> tuple[int, ...] | None:
    if args.steps is None:
        return None
    replay = Replay(trace)
    return parse_steps(args.steps, replay, replay.blocks - 1)


def _painting() -> object:
    """Sets up Qt to draw text without a display."""
    load_torch_before_qt()
    from PySide6.QtGui import QGuiApplication  # imports Qt, which JSON and pages do not need

    if sys.platform.startswith("linux"):
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    return QGuiApplication.instance() or QGuiApplication([sys.argv[0]])
