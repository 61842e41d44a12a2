"""``safelight download``: fetches a model from Hugging Face, or resumes a download that the window began."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from app.cli import options, running, terminal
from app.cli.stopping import STOPPED, stopping
from engine.hub.download import download
from engine.hub.record import DownloadProgress
from engine.hub_cache import snapshot_of

EPILOG = """\
The files go into the Hugging Face cache (HF_HOME, HF_HUB_CACHE), which other programs share, and each is checked by
its hash. Ctrl+C pauses: the same command goes on where it stopped, and so does the window. For models that ask for a
licence, give an access token in HF_TOKEN, or sign in once: hf auth login.

examples:
  safelight download ORG/NAME
  safelight generate "Why is the sky blue?" --model ORG/NAME
"""


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "download",
        run,
        "download a model from Hugging Face",
        "Download a model from Hugging Face, or go on with a download that was stopped.",
        EPILOG,
    )
    parser.add_argument("repo", metavar="ORG/NAME", help="the model's name at huggingface.co, or at HF_ENDPOINT")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end: path and bytes")


def run(args: argparse.Namespace) -> int:
    with stopping() as stop, _bar() as show:
        is_here = download(args.repo, stop=stop, progress=show, check=_check)
    place = snapshot_of(args.repo)
    if not is_here or place is None:
        terminal.say(f"paused; what is here is kept. To go on: safelight download {args.repo}")
        return STOPPED
    if args.json:
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        running.print_json({"model": args.repo, "path": str(place), "bytes": size})
    else:
        terminal.show(str(place))
    return 0


def _check(folder: Path) -> None:
    from engine.models.model import check_small_files  # imports torch

    check_small_files(folder)


@contextmanager
def _bar() -> Iterator[Callable[[DownloadProgress], None]]:
    """Shows a bar in bytes and the file on standard error, if it is a terminal, and erases it afterwards."""
    speed = TextColumn("{task.fields[speed]}")  # ours falls to 0 while nothing arrives
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), speed)
    console = terminal.console(sys.stderr)
    with Progress(*columns, console=console, transient=True, disable=not terminal.can_style(sys.stderr)) as bar:
        task = bar.add_task("asking the hub", total=None, speed="")

        def show(now: DownloadProgress) -> None:
            what = {"waiting": "no answer from the hub yet", "checking": f"checking {now.file}"}.get(now.stage)
            bar.update(
                task,
                description=what or now.file,
                completed=now.done_bytes,
                total=now.total_bytes or None,
                speed=f"{now.bytes_per_second / 1e6:.1f} MB/s",
            )

        yield show
