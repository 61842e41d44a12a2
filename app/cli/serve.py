"""``safelight serve``: serves a model to other programs. ``engine.server`` serves; this starts it."""

from __future__ import annotations

import argparse
import dataclasses
import os
from typing import TYPE_CHECKING

from app.cli import options, running, terminal
from app.cli.loading import POLL_SECONDS, ChosenBackend, load
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError
from engine.catalog import SMALL
from engine.service import LoadedModel, Scheduler

if TYPE_CHECKING:
    from engine.server import ServerOptions

MAX_PARALLEL = 16
EPILOG = f"""\
Enter the printed address and key in any program that takes an OpenAI-compatible server. Without --api-key and
{options.KEY_VARIABLE}, a key is made for this run. Others on this machine can read a key that is given on the command
line. Ctrl+C stops the server and all running answers.

examples:
  safelight serve
  safelight serve --model ~/models/diffusiongemma-26B-A4B-it --port 8080
  safelight serve --json --model safelight-sudoku
  safelight serve --host 0.0.0.0 --allow-host mybox.lan --origin https://chat.lan
"""


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "serve",
        run,
        "serve a model to other programs",
        "Serve a model to other programs through the APIs of OpenAI, Anthropic and Ollama. "
        "By default, only this machine can reach it.",
        EPILOG,
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument(
        "--port", type=options.number("the port", 0, 65_535), default=0, metavar="N", help="(default: 0, a free one)"
    )
    parser.add_argument(
        "--api-key", metavar="KEY", help=f"what clients must send (default: {options.KEY_VARIABLE}, or a new key)"
    )
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="URL",
        help="web pages that may use the server, such as http://localhost:3000; may be repeated",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name, in addition to localhost, by which the server may be called; may be repeated",
    )
    parser.add_argument(
        "--parallel",
        type=options.number("the runs", 1, MAX_PARALLEL),
        metavar="N",
        help="most answers at a time; others wait (default: depends on the model)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with url and api_key instead")
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    from engine.server import RunningServer, ServerOptions  # takes a fifth of a second to import

    key = args.api_key if args.api_key is not None else os.environ.get(options.KEY_VARIABLE)
    settings = ServerOptions(args.host, args.port, origins=tuple(args.origin), hosts=tuple(args.allow_host))
    settings = settings if key is None else dataclasses.replace(settings, api_key=key)
    with stopping() as stop:
        scheduler = Scheduler(ChosenBackend(args))
        server = RunningServer(scheduler, settings)
        try:
            server.start()  # before a large model is loaded, as the port may be taken
            model = load(args, scheduler, stop, SMALL)
            if model is None:
                terminal.say("stopped")
                return STOPPED
            if not settings.is_loopback:
                terminal.say(
                    f"{settings.host} can be reached from other machines: anyone with the key can use the model, "
                    "and the connection is not encrypted"
                )
            _print(args, settings, server.url, model)
            while not stop.wait(POLL_SECONDS):
                if not server.is_running or not scheduler.is_alive:
                    raise SafelightError("the server stopped unexpectedly; start it again")
        finally:
            server.stop()
            scheduler.close()
    return 0


def _print(args: argparse.Namespace, settings: ServerOptions, url: str, model: LoadedModel) -> None:
    if args.json:
        running.print_json({"url": url, "api_key": settings.api_key})
        return
    is_made = args.api_key is None and options.KEY_VARIABLE not in os.environ
    key = settings.api_key if is_made else "KEY" if args.api_key is not None else "$" + options.KEY_VARIABLE
    terminal.show(f"{model.name} is served at {url}/v1")
    if is_made:
        print(f"Key (until the server stops): {key}")
    print(f"In a browser: {url}/" + (f"#key={key}" if is_made else ""))
    print()
    print(f"curl {url}/v1/chat/completions \\")
    print(f'  -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\')
    print("""  -d '{"messages": [{"role": "user", "content": "Reverse the word robot."}]}'""")
    print()
    print("Ctrl+C stops the server.", flush=True)
