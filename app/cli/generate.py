"""``safelight generate``: prints the answer to a prompt on standard output. Knows neither Qt nor torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import formats, options, running, terminal
from app.cli.generate_remotely import AnsweredPrompt, remotely
from app.cli.watch import watcher
from engine import SKILLS, SafelightError
from engine.decoding.names import formatting, require_thoughts
from engine.pictures import Picture, read_picture
from engine.service import is_remote
from engine.text.message import Message, message_of
from engine.text.output import content_and_thought
from engine.text.output_format import OutputFormat
from engine.text.tags import closed_thought, end_of_thought, starts_in_thought

if TYPE_CHECKING:
    from engine import GenerationConfig, Model

EPILOG = (
    f"The model may be on another machine: --model http://HOST:PORT/v1#MODEL, with its key in {options.KEY_VARIABLE}."
    """

examples:
  safelight generate "Reverse the word robot."
  safelight generate "What is 47 + 5?" --watch
  echo "Sort 9 4 7 2 6." | safelight generate - --json --seed 7
  safelight generate "What is 47 + 5?" --json-schema '{"type": "integer"}'
  safelight generate "Is 12 even?" --choices yes no
  safelight generate "How many circles are there?" --image assets/examples/drawing.png --model safelight-sight
  safelight generate "What is in this picture?" --image photo.jpg --model http://HOST:PORT/v1#MODEL
  safelight generate "Sort 9 4 7 2 6." --model safelight-masked --decoder autoregressive --watch
"""
)


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "generate",
        help="write text after a prompt",
        description="Write text after a prompt.",
        epilog=EPILOG,
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what to answer; - reads it from standard input")
    options.add_images(parser, "a picture to show before the prompt")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the text")
    formats.add(parser)
    options.add_thinking(parser)
    options.add_watch(parser)
    options.add_model(parser, SKILLS)
    options.add_decoding(parser)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    changes, wanted = options.sampler_changes(args), formats.output_format(args)
    prompt = args.prompt if args.image and not args.prompt.strip() else options.prompt_of(args.prompt)
    pictures = tuple(read_picture(Path(name)) for name in args.image)
    if args.thinking_tokens is not None:
        changes["thinking_tokens"] = args.thinking_tokens
    named = args.model or getattr(args, "window_model", None) or ""
    answered = (remotely if is_remote(named) else _here)(args, prompt, pictures, changes, wanted)
    outcome, config = answered.outcome, answered.config
    if answered.failure and not outcome.text:
        raise SafelightError(answered.failure)
    if args.json:
        running.print_json(_record(args, prompt, answered, wanted))
    elif outcome.text:
        terminal.show(outcome.text)
    if answered.failure:
        raise SafelightError(answered.failure)
    if outcome.stopped:
        draft = "stopped; the last block is unfinished"
        terminal.say(draft if outcome.text and not config.grows else "stopped")
        return 130
    if wanted is not None and outcome.reason == "length":
        cut = "the answer is incomplete; raise --max-new-tokens, or ask for less"
        terminal.say(outcome.why or cut)
    elif not outcome.text.strip():
        terminal.say("the answer is empty: the model ended the text at once; try another seed or a longer question")
    return 0


def _record(
    args: argparse.Namespace, prompt: str, answered: AnsweredPrompt, wanted: OutputFormat | None
) -> dict[str, object]:
    """Returns what ``--json`` prints."""
    outcome, config = answered.outcome, answered.config
    return {
        "prompt": prompt,
        "text": outcome.text,
        **({"thinking": outcome.thinking} if args.think else {}),
        "reason": outcome.reason,
        "blocks": outcome.blocks,
        "steps": outcome.steps,
        "tokens": outcome.length,
        "decoder": config.decoder or answered.own_decoder,
        "tokens_per_forward": outcome.tokens_per_forward,
        "seconds": outcome.seconds,
        "prefill_seconds": outcome.prefill_seconds,
        "load_seconds": answered.load_seconds,
        "seed": answered.seed,
        **({"images": answered.image_sizes} if args.image else {}),
        **({} if wanted is None else {"format": wanted.kind}),
        **({"rounds": outcome.rounds} if wanted is not None and not config.grows else {}),
        **({"why": outcome.why} if outcome.why else {}),
        **answered.names,
        "device": answered.device,
    }


def _here(
    args: argparse.Namespace,
    prompt: str,
    pictures: tuple[Picture, ...],
    changes: dict[str, int | float | str],
    wanted: OutputFormat | None,
) -> AnsweredPrompt:
    """Generates the answer with a model on this machine."""
    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    messages = [message_of(prompt, pictures)]
    if args.think:
        ids = _asked_to_think(model, messages, config)
    else:
        ids = model.chat_ids(messages, image_tokens=config.image_tokens)
        ids = ids if wanted is None else closed_thought(ids, model.tokenizer)
    is_open = starts_in_thought(model.tokenizer.decode(ids, skip_special=False))
    given = model.with_images(ids, messages, pictures, config.image_tokens)
    known, own = model.family.decoders, model.family.default_decoder
    decoder = (config.decoder or own) if wanted is None else formatting(config, known, own)
    if not (args.think or is_open):
        config = formats.fitted(config, wanted, own, model.config.canvas_length)
    named = config.replace(decoder=decoder)
    has_end = end_of_thought(model.tokenizer.encode, model.tokenizer.piece) is not None
    require_thoughts(named, known, own, has_end=has_end, thinks=args.think or is_open)
    with watcher(args, model.tokenizer, named) as watch:
        outcome = running.run(model, given, config, running.seed(args), watch, wanted)
    if args.think:
        written = model.tokenizer.decode(outcome.tokens, skip_special=False)
        outcome.text, outcome.thinking = content_and_thought(written, starts_in_thought=is_open)
    return AnsweredPrompt(
        outcome,
        named,
        own,
        model.load_seconds,
        model.image_sizes(messages, config.image_tokens) if pictures else [],
        running.model_names(model),
        str(model.device),
        running.seed(args),
    )


def _asked_to_think(model: Model, messages: list[Message], config: GenerationConfig) -> list[int]:
    """Returns the prompt with which a model thinks before it answers.

    Raises:
        SafelightError: its template has none.
    """
    asked, plain = (
        model.chat_ids(messages, image_tokens=config.image_tokens, enable_thinking=thinks) for thinks in (True, False)
    )
    if asked == plain:
        raise SafelightError("this model cannot think before it answers; leave out --think")
    return asked
