"""``safelight generate``: prints the answer to a prompt on standard output. Knows neither Qt nor torch."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from app.cli import options, running, terminal
from app.cli.loading import load_alone
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError, files
from engine.config import MAX_POSITIONS
from engine.decoders import BLOCK_DIFFUSION
from engine.decoding.names import formatting, require_thoughts
from engine.pictures import read_picture
from engine.service import ChatRun, LoadedModel, is_remote, small
from engine.text.message import message_of
from engine.text.output import content_and_thought
from engine.text.output_format import MAX_SCHEMA, OutputFormat
from engine.text.tags import end_of_thought, starts_in_thought

MAX_FILE = 8 * MAX_SCHEMA  # bytes of a schema's file, with its white space
EPILOG = (
    f"The model may be on another machine: --model http://HOST:PORT/v1#MODEL, with its key in {options.KEY_VARIABLE}."
    """

examples:
  safelight generate "Reverse the word robot."
  safelight generate "What is 47 + 5?" --watch
  echo "Sort 9 4 7 2 6." | safelight generate - --json --seed 7
  safelight generate "What is 47 + 5?" --json-schema '{"type": "integer"}'
  safelight generate "What is 12 + 7?" --choices 18 19
  safelight generate "How many circles are there?" --image assets/examples/drawing.png
  safelight generate "What is in this picture?" --image photo.jpg --model http://HOST:PORT/v1#MODEL
  safelight generate "Sort 9 4 7 2 6." --model safelight-masked --decoder autoregressive --watch
"""
)


def add_formats(parser: argparse.ArgumentParser) -> None:
    named = parser.add_argument_group("format of the answer (one of these; the answer then fits it, or is cut)")
    group = named.add_mutually_exclusive_group()
    group.add_argument("--json-schema", metavar="FILE_OR_JSON", help="JSON that fits a schema")
    group.add_argument("--json-object", action="store_true", help="any JSON object")
    group.add_argument("--regex", metavar="R", help="a text that a regular expression matches as a whole")
    group.add_argument("--choices", nargs="+", metavar="TEXT", help="one of these texts; write the prompt before it")


def output_format(args: argparse.Namespace) -> OutputFormat | None:
    """Returns the format that the options name; None without them.

    Raises:
        SafelightError: the schema cannot be read, or a value is out of bounds.
    """
    if args.json_schema is not None:
        return OutputFormat("json_schema", _schema(args.json_schema))
    if args.json_object:
        return OutputFormat("json_object")
    if args.regex is not None:
        return OutputFormat("regex", pattern=args.regex)
    if args.choices is not None:
        return OutputFormat("choices", choices=tuple(args.choices))
    return None


def _schema(text: str) -> dict[str, object]:
    if not text.lstrip().startswith("{"):
        return files.read_json(Path(text).expanduser(), most=MAX_FILE)
    if len(text) > MAX_FILE:
        raise SafelightError(f"--json-schema has more than {MAX_FILE:,} characters; make it smaller")
    raw = files.parse_json(text, "--json-schema")
    assert isinstance(raw, dict)
    return raw


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands, "generate", run, "write text after a prompt", "Write text after a prompt.", EPILOG
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what to answer; - reads it from standard input")
    options.add_images(parser, "a picture to show before the prompt")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the text")
    add_formats(parser)
    parser.add_argument("--think", action="store_true", help="let the model think before it answers")
    parser.add_argument(
        "--thinking-tokens",
        type=options.number("the number of thinking tokens", 0, MAX_POSITIONS),
        metavar="N",
        help="the longest thought (default: no limit)",
    )
    options.add_watch(parser)
    options.add_model(parser)
    options.add_decoding(parser)
    options.add_sampler(parser)


def run(args: argparse.Namespace) -> int:
    changes, format = options.sampler_changes(args), output_format(args)
    prompt = args.prompt if args.image and not args.prompt.strip() else options.prompt_of(args.prompt)
    pictures = tuple(read_picture(Path(name)) for name in args.image)
    if args.thinking_tokens is not None:
        changes["thinking_tokens"] = args.thinking_tokens
    messages = (message_of(prompt, pictures),)
    with stopping() as stop:
        runner = load_alone(args, small.part_for(messages), stop)
        config, is_seed_set = runner.model.defaults, running.seed_of(args) is not None
        asked = ChatRun(
            config, running.seed(args), messages, args.think, keep=False, output_format=format,
            pictures=pictures, is_seed_set=is_seed_set, cancel=stop,
        )  # fmt: skip
        model, request = small.prepared(runner.model, asked)
        request = _set(args, model, request, changes)
        outcome = running.answered(args, runner, model, request)
    if args.think and not is_remote(model.path_or_id):
        is_open = starts_in_thought(model.write(model.prompt_ids(request)))
        written = model.write(outcome.tokens)
        outcome.text, outcome.thinking = content_and_thought(written, starts_in_thought=is_open)
    if outcome.failure is not None and not outcome.text:
        raise outcome.failure
    if args.json:
        running.print_json(_record(args, prompt, model, request, outcome))
    elif outcome.text:
        terminal.show(outcome.text)
    if outcome.failure is not None:
        raise outcome.failure
    if outcome.stopped:
        draft = "stopped; the last block is unfinished"
        terminal.say(draft if outcome.text and not outcome.config.grows else "stopped")
        return STOPPED
    if format is not None and outcome.reason == "length":
        cut = "the answer is incomplete; raise --max-new-tokens, or ask for less"
        terminal.say(outcome.why or cut)
    elif not outcome.text.strip():
        terminal.say("the answer is empty: the model ended the text at once; try another seed or a longer question")
    return 0


def _record(
    args: argparse.Namespace, prompt: str, model: LoadedModel, request: ChatRun, outcome: running.Outcome
) -> dict[str, object]:
    """Returns what ``--json`` prints."""
    config, cost, format = outcome.config, model.image_cost, request.output_format
    sizes = [cost.soft_tokens(one.width, one.height, config.image_tokens) for one in request.pictures if cost]
    return {
        "prompt": prompt,
        "text": outcome.text,
        **({"thinking": outcome.thinking} if args.think else {}),
        "reason": outcome.reason,
        "blocks": outcome.blocks,
        "steps": outcome.steps,
        "tokens": outcome.length,
        "decoder": config.decoder or next(iter(model.decoders), ""),
        "tokens_per_forward": outcome.tokens_per_forward,
        "seconds": outcome.seconds,
        "prefill_seconds": outcome.prefill_seconds,
        "load_seconds": model.load_seconds,
        "seed": outcome.seed,
        **({"images": sizes} if args.image else {}),
        **({} if format is None else {"format": format.kind}),
        **({"rounds": outcome.rounds} if format is not None and not config.grows else {}),
        **({"why": outcome.why} if outcome.why else {}),
        **running.names_of(model),
        "device": str(model.device_reason) if is_remote(model.path_or_id) else model.device,
    }


def _set(
    args: argparse.Namespace, model: LoadedModel, request: ChatRun, changes: dict[str, int | float | str]
) -> ChatRun:
    """Returns a request with the settings of the options.

    Raises:
        SafelightError: the model does not follow them.
    """
    config = options.settings(request.config, changes)
    is_open, has_end, decoder = False, True, config.decoder  # of a server, which sets the rest
    if is_remote(model.path_or_id):
        _require_followed(args, model, changes)
    else:
        ids = model.prompt_ids(request)
        if args.think and ids == model.prompt_ids(dataclasses.replace(request, think=False)):
            raise SafelightError("this model cannot think before it answers; leave out --think")
        is_open = starts_in_thought(model.write(ids))
        has_end = end_of_thought(model.encode, model.piece) is not None
        if request.is_held:
            decoder = formatting(config, model.decoders)
    thinks = args.think or is_open
    require_thoughts(config.replace(decoder=decoder), model.decoders, has_end=has_end, thinks=thinks)
    if request.is_held and model.decoders[:1] == (BLOCK_DIFFUSION,) and not thinks:
        config = config.for_format(model.canvas_length)
    return dataclasses.replace(request, config=config)


def _require_followed(args: argparse.Namespace, model: LoadedModel, changes: Mapping[str, object]) -> None:
    """Checks that the server follows every option given.

    Raises:
        SafelightError: it does not follow an option with this model.
    """
    if args.watch and not model.capabilities.steps:
        raise SafelightError("this server only sends text, so there is no canvas to watch; leave out --watch")
    if model.settings is None:
        return
    given = {**changes, **({"seed": args.seed} if args.seed is not None else {})}
    if given.get("decoder") in model.decoders:
        del given["decoder"]
    if unknown := sorted(given.keys() - model.settings):
        said = ", ".join(options.flag_of(name, f"--{name.replace('_', '-')}") for name in unknown)
        rest = "it" if len(unknown) == 1 else "them"
        raise SafelightError(f"the server does not follow {said} with this model; leave {rest} out")
