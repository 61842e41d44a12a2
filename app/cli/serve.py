"""``safelight serve``: a model for other programs, by OpenAI's API. ``engine.server`` serves; this starts it."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from app.cli import options, running, terminal
from engine import ADAPTERS, SKILLS, SafelightError, catalog
from engine.service import (
    AdapterChanged,
    Capabilities,
    LoadedModel,
    LoadFailed,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    Scheduler,
    ServiceReply,
)

if TYPE_CHECKING:
    from engine import Model
    from engine.server import ServerOptions

KEY_VARIABLE = "SAFELIGHT_API_KEY"
MOST_PARALLEL = 16
POLL_SECONDS = 0.5  # between looks at the flag, as a wait without an end cannot be interrupted on Windows
STOPPED = 130
EPILOG = f"""\
Programs that take an OpenAI-compatible server are given the address that is printed, and the key. Without --api-key
and {KEY_VARIABLE} a key is made for this run; what is given on a command line, others on this machine can read.
Ctrl+C ends the server and the answers under way.

examples:
  safelight serve
  safelight serve --model ~/models/diffusiongemma-26B-A4B-it --port 8080
  safelight serve --json --model safelight-sudoku
  safelight serve --host 0.0.0.0 --allow-host mybox.lan --origin https://chat.lan
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "serve",
        help="serve a model to other programs",
        description="Serve a model to other programs by OpenAI's API, on this machine unless told otherwise.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument(
        "--port", type=options.number("the port", 0, 65_535), default=0, metavar="N", help="(default: 0, a free one)"
    )
    parser.add_argument("--api-key", metavar="KEY", help=f"what clients must send (default: {KEY_VARIABLE}, or made)")
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
        help="a name besides localhost by which the server may be called; may be repeated",
    )
    parser.add_argument(
        "--parallel",
        type=options.number("the runs", 1, MOST_PARALLEL),
        metavar="N",
        help="most answers at a time; others wait (default: as many as suit the model)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with url and api_key instead")
    options.add_loading(parser, SKILLS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from engine.server import RunningServer  # it takes a fifth of a second to import

    settings = _options(args)
    if args.adapter is not None:
        catalog.resolve_adapter(args.adapter)  # a mistyped one is rejected before a large model is loaded
    with _stopping() as stop:
        scheduler = Scheduler(_ChosenBackend(args))
        server = RunningServer(scheduler, settings)
        try:
            server.start()  # before a large model is loaded, as the port may be taken; it says that the model loads
            model = _load(args, scheduler, stop)
            if model is None:
                terminal.say("stopped")
                return STOPPED
            if not settings.is_loopback:
                terminal.say(
                    f"{settings.host} can be reached from other machines: whoever has the key can use the model, "
                    "and what is sent is not encrypted"
                )
            _print(args, settings, server.url, model)
            while not stop.wait(POLL_SECONDS):
                if not server.is_running or not scheduler.is_alive:
                    raise SafelightError("the server ended by itself; start it again")
        finally:
            server.stop()
            scheduler.close()
    return 0


def _options(args: argparse.Namespace) -> ServerOptions:
    from engine.server import ServerOptions  # as above

    key = args.api_key if args.api_key is not None else os.environ.get(KEY_VARIABLE)
    settings = ServerOptions(host=args.host, port=args.port, origins=tuple(args.origin), hosts=tuple(args.allow_host))
    return settings if key is None else dataclasses.replace(settings, api_key=key)


class _ChosenBackend(LocalBackend):
    """Loads as the command line says, and keeps no traces."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self._args = args

    @property
    def capabilities(self) -> Capabilities:
        able = super().capabilities
        parallel = self._args.parallel
        return able if parallel is None else dataclasses.replace(able, parallel_runs=parallel)

    def load_model(self, path_or_id: str, progress: Callable[[float], None], threads: int) -> Model:
        from engine import load_model  # torch

        return load_model(
            path_or_id,
            device=self._args.device,
            dtype=self._args.dtype,
            quantization=self._args.quantization,
            progress=progress,
            threads=threads,
        )


class _Loading:
    """An ``Outlet`` that waits for a model."""

    is_full = False

    def __init__(self, wants_adapter: bool) -> None:
        self._wants_adapter = wants_adapter
        self.ended = threading.Event()
        self.problem = ""

    def put(self, reply: ServiceReply) -> None:
        match reply:
            case LoadFailed(message=message):
                self.problem = message
                self.ended.set()
            case AdapterChanged(message=message):
                self.problem = message
                self.ended.set()
            case ModelLoaded() if not self._wants_adapter:
                self.ended.set()


def _load(args: argparse.Namespace, scheduler: Scheduler, stop: threading.Event) -> LoadedModel | None:
    """The model of the options, loaded; None if it was stopped.

    Raises:
        SafelightError: it cannot be loaded.
    """
    bases = {adapter.id: adapter.base for adapter in ADAPTERS}
    name = args.model or getattr(args, "window_model", None) or bases.get(args.adapter, SKILLS)
    request, loading = LoadRequest(name, name, args.threads, args.adapter), _Loading(args.adapter is not None)
    with terminal.note(f"Loading {name} …"):
        scheduler.load(request, loading)
        while not loading.ended.wait(POLL_SECONDS / 5):
            if stop.is_set():
                request.cancel.set()
                return None
    if loading.problem or scheduler.model is None:
        raise SafelightError(loading.problem or f"{name} could not be loaded")
    return scheduler.model


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """A flag that Ctrl+C and a request to end the program set, the first time; the second ends it at once."""
    stop = threading.Event()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform == "win32":
        numbers.append(signal.SIGBREAK)
    before = {number: signal.getsignal(number) for number in numbers}

    def handle(number: int, _frame: Any) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in numbers:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(args: argparse.Namespace, settings: ServerOptions, url: str, model: LoadedModel) -> None:
    if args.json:
        running.print_json({"url": url, "api_key": settings.api_key})
        return
    is_made = args.api_key is None and KEY_VARIABLE not in os.environ
    key = settings.api_key if is_made else "KEY" if args.api_key is not None else "$" + KEY_VARIABLE
    print(f"{model.name} is served at {url}/v1")
    if is_made:
        print(f"The key, for this time: {key}")
    print(f"In a browser: {url}/" + (f"#key={key}" if is_made else ""))
    print()
    print(f"curl {url}/v1/chat/completions \\")
    print(f'  -H "Authorization: Bearer {key}" -H "Content-Type: application/json" \\')
    print("""  -d '{"messages": [{"role": "user", "content": "Reverse the word robot."}]}'""")
    print()
    print("Ctrl+C ends it.", flush=True)
