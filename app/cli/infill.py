"""``safelight infill``: prints what stands in the gap of a text. Knows neither Qt nor torch."""

from __future__ import annotations

import argparse

from app.cli import options, running, terminal
from app.cli.stopping import STOPPED, stopping
from engine import GAPS, SafelightError
from engine.declared import check_real
from engine.text.outline import Hole, parse, spans

EPILOG = """\
The gap is [[...]] in the text, as in the chat, or stands between two files. Where the model writes on a canvas, the gap
may have a length: [[5 tokens]], [[3 words]]. Models of block diffusion can fill gaps, those that read whole texts
(LLaDA, Dream), and those with fill-in-the-middle tokens (Qwen2.5-Coder, StarCoder, CodeGemma).

examples:
  safelight infill "2 4 6 [[...]] 10 12" --max-new-tokens 8
  safelight infill "Monday, [[7 tokens]], Wednesday" --json
  safelight infill --file FILE --model ~/models/qwen2.5-coder.gguf
  safelight infill --prefix-file FILE --suffix-file FILE
"""


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "infill",
        run,
        "write what stands in the gap of a text",
        "Write what stands in the gap of a text, and nothing else.",
        EPILOG,
    )
    parser.add_argument("text", metavar="TEXT", nargs="?", help="a text with one gap, written as [[...]]")
    parser.add_argument("--file", metavar="FILE", help="a file that has the text; - reads it from standard input")
    parser.add_argument("--prefix-file", metavar="FILE", help="a file that has the text before the gap")
    parser.add_argument("--suffix-file", metavar="FILE", help="a file that has the text behind the gap")
    parser.add_argument("--seconds", type=float, metavar="X", help="take no step after so many seconds")
    parser.add_argument("--instruction", default="", metavar="TEXT", help="what to write, to a model that chats")
    parser.add_argument("--json", action="store_true", help="print one JSON object with the text")
    options.add_model(parser)
    options.add_decoding(parser)
    options.add_sampler(parser)


def run(args: argparse.Namespace) -> int:
    prefix, hole, suffix = _gap_of(args)
    changes = options.sampler_changes(args)
    if args.seconds is not None:
        check_real("seconds", args.seconds, 0.0, exclusive=True)
    model = running.load(args, GAPS)

    from engine.decoding.gap_filling import DEFAULT_TOKENS, infill  # torch
    from engine.service.outlining import hole_tokens

    config = options.settings(model.generation_defaults, changes)
    with stopping() as stop:
        infilled = infill(
            model,
            prefix,
            suffix,
            length=hole_tokens(hole, model.tokenizer.encode_inert),
            instruction=args.instruction,
            max_tokens=int(changes.get("max_new_tokens", DEFAULT_TOKENS)),
            seconds=args.seconds,
            seed=running.seed(args),
            cancel=stop,
            config=config,
        )
        if stop.is_set():
            return STOPPED
    if args.json:
        texts = {"prefix": prefix, "suffix": suffix, "text": None if infilled is None else infilled.text}
        counts = {} if infilled is None else {"tokens": infilled.length, "steps": infilled.steps}
        running.print_json({**texts, **counts, "seed": running.seed(args), **running.names_of(model)})
    elif infilled is not None:
        terminal.show(infilled.text)
    if infilled is None:
        terminal.say("no text was ready in time; give more seconds, or ask for fewer tokens")
    return 0


def _gap_of(args: argparse.Namespace) -> tuple[str, Hole, str]:
    """Returns the text before the gap, the gap, and the text behind it.

    Raises:
        SafelightError: there is not exactly one gap; a file cannot be read.
    """
    around = args.prefix_file is not None or args.suffix_file is not None
    if (args.text is not None) + (args.file is not None) + around != 1:
        raise SafelightError("give a text with a gap, or --file, or --prefix-file and --suffix-file (see --help)")
    if around:
        if args.prefix_file is None or args.suffix_file is None:
            raise SafelightError("give both --prefix-file and --suffix-file; one of them may be an empty file")
        return options.read_text(args.prefix_file)[0], Hole(), options.read_text(args.suffix_file)[0]
    text = args.text if args.file is None else options.read_text(args.file)[0]
    gaps = [*spans(text)]
    if len(gaps) != 1:
        raise SafelightError(f"the text has {len(gaps)} gaps; write [[...]] in exactly one place")
    [(start, stop)] = gaps
    _, (hole,) = parse(text[start:stop])
    assert isinstance(hole, Hole)
    return text[:start], hole, text[stop:]
