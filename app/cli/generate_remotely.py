"""The answer of a model on another machine, for ``safelight generate``. Knows no torch."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.cli import formats, options, running, terminal
from app.cli.loading import remote_backend
from app.cli.stopping import stopping
from app.cli.watch import watcher
from engine import Event, GenerationConfig, SafelightError
from engine.decoding.names import require_thoughts
from engine.pictures import Picture
from engine.service import (
    Backend,
    LoadedModel,
    LoadFailed,
    LoadReply,
    LoadRequest,
    ModelLoaded,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunStarted,
    run_alone,
)
from engine.text.message import message_of
from engine.text.output_format import OutputFormat


@dataclass(frozen=True)
class AnsweredPrompt:
    """An outcome with facts about the model that produced it."""

    outcome: running.Outcome
    config: GenerationConfig
    own_decoder: str  # empty if the server does not report it
    load_seconds: float
    image_sizes: list[int]  # soft tokens of each picture; empty if the server does not report them
    names: dict[str, str]
    device: str
    seed: int | None  # None: the server chose its own
    failure: str = ""  # why the answer broke off; its text so far is in the outcome


def remotely(
    args: argparse.Namespace,
    prompt: str,
    pictures: tuple[Picture, ...],
    changes: dict[str, int | float | str],
    wanted: OutputFormat | None,
) -> AnsweredPrompt:
    """Generates the answer on the server that the options name.

    Raises:
        SafelightError: the server cannot be asked, or does not answer.
    """
    if args.adapter is not None:
        raise SafelightError("the server chooses its adapter; leave out --adapter")
    backend, trace, failure = remote_backend(), None, ""

    def events() -> Iterator[Event]:
        nonlocal trace, failure
        for reply in run_alone(backend, request):
            match reply:
                case RunStarted(trace=begun):
                    trace = begun
                case RunAdvanced(event=event):
                    yield event
                case RunEnded(message=message):
                    failure = str(message).rstrip(".")

    with stopping() as stop:
        model = _load(backend, args.model or args.window_model, stop)
        if args.watch and not model.capabilities.steps:
            raise SafelightError("this server only sends text, so there is no canvas to watch; leave out --watch")
        _require_followed(args, model, changes)
        config, cost = options.settings(model.defaults, changes), model.image_cost
        own = next(iter(model.decoders), "")
        require_thoughts(config, model.decoders, own, has_end=True, thinks=args.think)  # the server sets the rest
        if not args.think:
            config = formats.fitted(config, wanted, own, model.canvas_length)
        messages, seed = (message_of(prompt, pictures),), running.seed(args)
        request = RunRequest(
            "chat", messages, config, seed, args.think, output_format=wanted, pictures=pictures,
            is_seed_set=running.seed_of(args) is not None, cancel=stop,
        )  # fmt: skip
        with watcher(args, model, config) as watch:
            outcome = running.follow(events(), config, watch)
        outcome.stopped = stop.is_set()
    if failure:
        outcome.reason = "failed"
    outcome.text, outcome.thinking = ("", "") if trace is None else trace.reply()
    sizes = [] if cost is None else [cost.soft_tokens(one.width, one.height, config.image_tokens) for one in pictures]
    names = {"model": model.name} | ({"adapter": model.adapter} if model.adapter else {})
    followed = seed if trace is None else trace.seed
    config = config if trace is None else config.replace(decoder=trace.config.decoder or config.decoder)
    device = str(model.device_reason)
    return AnsweredPrompt(outcome, config, own, model.load_seconds, sizes, names, device, followed, failure)


def _require_followed(args: argparse.Namespace, model: LoadedModel, changes: Mapping[str, object]) -> None:
    """Checks that the server follows every option given.

    Raises:
        SafelightError: it does not follow an option with this model.
    """
    if model.settings is None:
        return
    given = {**changes, **({"seed": args.seed} if args.seed is not None else {})}
    if given.get("decoder") in model.decoders:
        del given["decoder"]
    if unknown := sorted(given.keys() - model.settings):
        names = {knob.field: knob.option for knob in (*options.KNOBS, *options.DECODING)}
        said = ", ".join(names.get(name, f"--{name.replace('_', '-')}") for name in unknown)
        rest = "it" if len(unknown) == 1 else "them"
        raise SafelightError(f"the server does not follow {said} with this model; leave {rest} out")


def _load(backend: Backend, address: str, stop: threading.Event) -> LoadedModel:
    """Loads the model on the server.

    Raises:
        SafelightError: the server has no such model, or cannot be asked.
        KeyboardInterrupt: it was stopped.
    """
    found: list[LoadReply] = []
    with terminal.note(f"Asking {address} …"):
        backend.load(LoadRequest(address, "", cancel=stop), found.append)
    match found[-1:]:
        case [ModelLoaded(model=model)]:
            return model
        case [LoadFailed(message=message)]:
            raise SafelightError(str(message).rstrip("."))
    raise KeyboardInterrupt
