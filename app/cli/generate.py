"""``safelight generate``: a prompt's answer, to standard output. Knows neither Qt nor torch."""

from __future__ import annotations

import argparse
import sys

from app.cli import options, running, terminal
from app.cli.watch import watcher
from engine import SKILLS, SafelightError

EPILOG = """\
examples:
  safelight generate "Reverse the word robot."
  safelight generate "What is 47 + 5?" --watch
  echo "Sort 9 4 7 2 6." | safelight generate - --json --seed 7
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "generate", help="write text after a prompt", description="Write text after a prompt.", epilog=EPILOG
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what to answer; - reads it from standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the text")
    options.add_watch(parser)
    options.add_model(parser, SKILLS)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    changes = options.sampler_changes(args)
    prompt = options.read_text("-")[0].rstrip("\n") if args.prompt == "-" else args.prompt
    if not prompt.strip():
        raise SafelightError("the prompt is empty; write something first")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise SafelightError("the prompt is not valid UTF-8 text") from None

    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    ids = model.chat_ids([{"role": "user", "content": prompt}])
    seed = running.seed(args)
    with watcher(args, model.tokenizer, config) as watch:
        outcome = running.run(model, ids, config, seed, watch)

    if args.json:
        running.print_json(
            {
                "prompt": prompt,
                "text": outcome.text,
                "reason": outcome.reason,
                "blocks": outcome.blocks,
                "steps": outcome.steps,
                "tokens": len(outcome.tokens),
                "tokens_per_forward": outcome.tokens_per_forward,
                "seconds": outcome.seconds,
                "prefill_seconds": outcome.prefill_seconds,
                "load_seconds": model.load_seconds,
                "seed": seed,
                **running.model_names(model),
                "device": str(model.device),
            }
        )
    elif outcome.text:
        print(terminal.printable(outcome.text) if sys.stdout.isatty() else outcome.text, flush=True)
    if outcome.stopped:
        terminal.say("stopped; the last canvas is an unfinished draft" if outcome.text else "stopped")
        return 130
    if not outcome.text.strip():
        terminal.say("the answer is empty: the model ended the text at once; try another seed or a longer question")
    return 0
