"""Loads a model and runs one generation for the terminal, from events to one outcome. Prints no results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import engine
from app.cli import terminal
from app.cli.loading import chosen, failure
from app.cli.watch import watcher
from engine import (
    CanvasCommitted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    StepFinished,
    TextArrived,
)
from engine.service import LoadedModel, RunAdvanced, RunEnded, Runner, RunRequest, RunStarted, run_alone
from engine.trace import Draft

if TYPE_CHECKING:
    from engine import Model


@dataclass
class Outcome:
    """A run's text and its cost, so far. Times exclude loading and watching."""

    config: GenerationConfig  # with the decoder that wrote
    seed: int | None = None  # None: the server chose its own
    text: str = ""
    thinking: str = ""  # not part of the text
    reason: str = "cancelled"
    why: str = ""  # explains the reason "length" in a sentence, if the length limit did not end the run
    failure: Exception | None = None  # why the answer broke off
    counted: int = 0  # tokens of text that arrived without a canvas
    blocks: int = 0  # number of committed blocks
    steps: int = 0
    rounds: int = 0  # how often a prefix was pinned, if the answer had a format
    prefill_seconds: float = 0.0
    seconds: float = 0.0  # without prefill
    stopped: bool = False  # by Ctrl+C; ``text`` then ends with the unfinished canvas's draft

    def __post_init__(self) -> None:
        self._draft = Draft(self.config.eos_token_ids)

    def take(self, event: Event) -> None:
        """Adds the run's next event."""
        self._draft.fold(event)
        match event:
            case TextArrived():
                self.counted += event.counted
            case PrefillFinished():
                self.prefill_seconds = event.seconds
            case StepFinished():
                self.steps += 1
                self.seconds += event.seconds
            case PrefixPinned():
                self.rounds += 1
            case CanvasCommitted():
                self.blocks += 1
            case GenerationFinished():
                self.reason, self.why, self.seconds = event.reason, event.why, event.seconds

    @property
    def tokens(self) -> list[int]:
        """The tokens of the text, before the end token."""
        return self._draft.tokens()

    @property
    def length(self) -> int:
        """Returns the number of tokens of the text."""
        return len(self.tokens) or self.counted

    @property
    def tokens_per_forward(self) -> float:
        return len(self.tokens) / self.steps if self.steps else 0.0


def load(args: argparse.Namespace, default: str) -> Model:
    """Loads the model and adapter of the options, with a note on standard error if that is a terminal."""
    name = chosen(args, default)
    with terminal.note(f"Loading {name} …"):
        model = engine.load_model(
            name, device=args.device, dtype=args.dtype, quantization=args.quantization, threads=args.threads
        )
        if args.adapter is not None:
            engine.load_adapter(model, args.adapter)
    if model.placement.is_news:
        terminal.say(model.placement.reason)
    return model


def names_of(model: Model | LoadedModel) -> dict[str, str]:
    """Returns the names for a JSON record: the model's, and its adapter's if it has one."""
    adapter = Path(model.adapter) if isinstance(model.adapter, str) else model.adapter
    return {"model": model.name} | ({} if adapter is None else {"adapter": adapter.name})


def seed_of(args: argparse.Namespace) -> int | None:
    """Returns the seed given after the subcommand, else the one given before it; None without one."""
    return args.seed if args.seed is not None else getattr(args, "window_seed", None)


def seed(args: argparse.Namespace) -> int:
    """Returns the given seed, else 0."""
    return seed_of(args) or 0


def answered(args: argparse.Namespace, runner: Runner, model: LoadedModel, request: RunRequest) -> Outcome:
    """Runs a request to its end, or until it is cancelled; shows it meanwhile if the options say so.

    Args:
        model: that writes, whose tokens are shown.
    """
    outcome, watch, trace = Outcome(request.config), None, None
    with ExitStack() as watching:
        for reply in run_alone(runner.backend, request):
            match reply:
                case RunStarted(trace=begun):
                    trace = begun
                    columns = model.traits.canvas_columns
                    watch = watching.enter_context(watcher(args, model, begun.config, columns))
                case RunAdvanced(event=event):
                    outcome.take(event)
                    if watch is not None:
                        watch(event)
                case RunEnded(message=message, details=details):
                    outcome.failure = failure(message, details)
    outcome.stopped, outcome.seed = request.cancel.is_set(), request.seed
    if trace is not None:
        outcome.text, outcome.thinking = trace.reply()
        outcome.seed = trace.seed
        outcome.config = request.config.replace(decoder=trace.config.decoder or request.config.decoder)
    if outcome.failure is not None:
        outcome.reason = "failed"
    return outcome


def follow(events: Iterable[Event], config: GenerationConfig) -> Outcome:
    """Collects the events of a run in an outcome, except for its text."""
    outcome = Outcome(config)
    for event in events:
        outcome.take(event)
    return outcome


def print_json(record: dict[str, Any]) -> None:
    """Prints a JSON object on one line of standard output and flushes it."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(record, ensure_ascii=not unicode), flush=True)
