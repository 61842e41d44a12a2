"""Loads a model and runs one generation for the terminal, from events to one outcome. Prints no results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import engine
from app.cli import terminal
from engine import (
    CanvasCommitted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    StepFinished,
    TextArrived,
    catalog,
)
from engine.text.output_format import OutputFormat
from engine.trace import Draft

if TYPE_CHECKING:
    from engine import Model

Observer = Callable[[Event], None]


@dataclass
class Outcome:
    """A run's text and its cost. Times exclude loading and the observer."""

    text: str = ""
    thinking: str = ""  # if it was asked for; not part of the text
    reason: str = "cancelled"
    why: str = ""  # explains the reason "length" in a sentence, if the length limit did not end the run
    tokens: list[int] = field(default_factory=list)  # before the end token
    counted: int = 0  # tokens of text that arrived without a canvas
    blocks: int = 0  # number of committed blocks
    steps: int = 0
    rounds: int = 0  # how often a prefix was pinned, if the answer had a format
    prefill_seconds: float = 0.0
    seconds: float = 0.0  # without prefill
    stopped: bool = False  # by Ctrl+C; ``text`` then ends with the unfinished canvas's draft

    @property
    def length(self) -> int:
        """Returns the number of tokens of the text."""
        return len(self.tokens) or self.counted

    @property
    def tokens_per_forward(self) -> float:
        return len(self.tokens) / self.steps if self.steps else 0.0


def load(args: argparse.Namespace, default: str) -> Model:
    """Loads the model and adapter of the options, with a note on standard error if that is a terminal."""
    if args.adapter is not None:
        catalog.resolve_adapter(args.adapter)  # so that a mistyped one is rejected before a large model is loaded
    bases = {adapter.id: adapter.base for adapter in engine.ADAPTERS}
    name = args.model or getattr(args, "window_model", None) or bases.get(args.adapter, default)
    with terminal.note(f"Loading {name} …"):
        model = engine.load_model(
            name, device=args.device, dtype=args.dtype, quantization=args.quantization, threads=args.threads
        )
        if args.adapter is not None:
            engine.load_adapter(model, args.adapter)
    if model.placement.is_news:
        terminal.say(model.placement.reason)
    return model


def model_names(model: Model) -> dict[str, str]:
    """Returns the names for a JSON record: the model's, and its adapter's if it has one."""
    return {"model": model.name} | ({} if model.adapter is None else {"adapter": model.adapter.name})


def seed_of(args: argparse.Namespace) -> int | None:
    """Returns the seed given after the subcommand, else the one given before it; None without one."""
    return args.seed if args.seed is not None else getattr(args, "window_seed", None)


def seed(args: argparse.Namespace) -> int:
    """Returns the given seed, else 0."""
    return seed_of(args) or 0


def run(
    model: Model,
    ids: Sequence[int],
    config: GenerationConfig,
    seed: int,
    observe: Observer | None = None,
    output_format: OutputFormat | None = None,
) -> Outcome:
    """Runs a generation to its end, or to Ctrl+C, which takes effect within a step."""
    outcome = follow(engine.generate(model, ids, config, seed, output_format=output_format), config, observe)
    outcome.text = model.tokenizer.decode(outcome.tokens)
    return outcome


def follow(events: Iterable[Event], config: GenerationConfig, observe: Observer | None = None) -> Outcome:
    """Collects the events of a run in an outcome, except for its text; Ctrl+C ends the run."""
    outcome = Outcome()
    draft = Draft(config.eos_token_ids)
    try:
        for event in events:
            draft.fold(event)
            match event:
                case TextArrived():
                    outcome.counted += event.counted
                case PrefillFinished():
                    outcome.prefill_seconds = event.seconds
                case StepFinished():
                    outcome.steps += 1
                    outcome.seconds += event.seconds
                case PrefixPinned():
                    outcome.rounds += 1
                case CanvasCommitted():
                    outcome.blocks += 1
                case GenerationFinished():
                    outcome.reason, outcome.why, outcome.seconds = event.reason, event.why, event.seconds
            if observe is not None:
                observe(event)
    except KeyboardInterrupt:
        outcome.stopped, outcome.reason = True, "cancelled"
    outcome.tokens = draft.tokens()
    return outcome


def print_json(record: dict[str, Any]) -> None:
    """Prints a JSON object on one line of standard output and flushes it."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(record, ensure_ascii=not unicode), flush=True)
