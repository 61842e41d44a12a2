"""``safelight mcp``: a model as tools of programs that start this one. ``engine.server.mcp`` serves; this starts it."""

from __future__ import annotations

import argparse
import sys
import threading
from typing import TYPE_CHECKING

from app.cli import options, terminal
from app.cli.loading import POLL_SECONDS, ChosenBackend, chosen, load
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError
from engine.catalog import SMALL
from engine.service import Scheduler

if TYPE_CHECKING:
    from engine.server.mcp.stdio import StdioServer

EPILOG = """\
Programs such as Claude Desktop, Codex and Cursor start this command and talk to it over standard input and output. Its
tools are generate, decide, infill, sudoku and inspect_run. They are listed at once, while the model is still loading.
The command ends when the program closes its end. safelight serve has the same tools at /mcp.

in Claude Desktop's claude_desktop_config.json, and in Cursor's mcp.json:
  {"mcpServers": {"safelight": {"command": "safelight", "args": ["mcp"]}}}

in Codex's config.toml:
  [mcp_servers.safelight]
  command = "safelight"
  args = ["mcp"]
  required = true
"""


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "mcp",
        run,
        "a model as tools of Claude Desktop, Codex, Cursor and other programs",
        "Serve a model as tools of the Model Context Protocol, over standard input and output.",
        EPILOG,
    )
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    from engine.server import ServerOptions  # takes a fifth of a second to import
    from engine.server.mcp.stdio import StdioServer  # imports the server

    chosen(args, SMALL)  # so that a mistyped adapter is rejected at once
    if sys.stdin is None or sys.stdout is None:
        raise SafelightError("standard input or output is closed; let another program start this")
    if sys.stdin.isatty():
        terminal.say("this command is for programs, which start it themselves (see safelight mcp --help)")
    ended = threading.Event()
    with stopping() as stop:

        def end() -> None:
            ended.set()
            stop.set()

        scheduler = Scheduler(ChosenBackend(args))
        server = StdioServer(scheduler, ServerOptions(), end)
        try:
            server.start()
            _load(args, scheduler, stop, server)
            while not stop.wait(POLL_SECONDS):
                if not scheduler.is_alive:
                    raise SafelightError("the engine stopped unexpectedly; start this command again")
            code = 0 if ended.is_set() else STOPPED
        finally:
            server.stop()
            scheduler.close()
    return code


def _load(args: argparse.Namespace, scheduler: Scheduler, stop: threading.Event, server: StdioServer) -> None:
    """Loads the model. A problem is said to the person, and again to each call of a tool, where it is seen."""
    try:
        model = load(args, scheduler, stop, SMALL)
    except SafelightError as error:
        terminal.say(str(error))
        server.expect_no_more(str(error))
        return
    server.expect_no_more()
    if model is not None:
        terminal.say(f"{model.name} is ready for tools")
