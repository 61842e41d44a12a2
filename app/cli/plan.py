"""``safelight plan``: a model's memory by part, and whether it fits. ``engine.memory`` computes it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from app.cli import options, running, terminal
from engine.memory.machine import CARDS, card_of

if TYPE_CHECKING:
    from engine.memory.plan import Plan

EPILOG = """\
Loads nothing: config.json and the headers of the weights are enough, or config.json alone. For a GGUF file the
header is enough; one of DiffusionGemma is counted as imported. A shape can be given instead of a folder: 26b-a4b
for DiffusionGemma 26B-A4B, wedlm-8b for WeDLM 8B, nemotron-3b for Nemotron-Labs-Diffusion 3B, qwen3-1.7b,
qwen3-0.6b, qwen2.5-coder-1.5b, qwen2.5-coder-0.5b. Sizes are in decimal GB.

examples:
  safelight plan 26b-a4b --card rtx-4090
  safelight plan ~/models/diffusiongemma-26B-A4B-it --context 8192 --quantization nf4
  safelight plan ~/Downloads/diffusiongemma-26B-A4B-it-Q8_0.gguf
  safelight plan safelight-mini --json
"""
CONTENT = {
    "experts": "experts",
    "attention": "attention projections",
    "dense": "dense MLP, self-conditioning",
    "embedding": "token table",
    "other": "norms, router, scalars, draft adapter",
    "vision": "vision tower",
    "kv_cache": "keys and values",
    "activations": "one pass through the layers",
    "workspace": "vocabulary stage, values kept between steps",
    "process": "the program itself",
    "cuda_context": "CUDA, code of kernels and libraries",
    "reserve": "room for the allocators",
}
NO_TENSORS = ("process", "cuda_context", "reserve")  # the first on a CPU alone, the second on a GPU


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "plan",
        run,
        "show how much memory a model takes",
        "Show how much memory a model takes, and whether it fits.",
        EPILOG,
    )
    parser.add_argument(
        "model", type=options.place, metavar="MODEL", help="a model folder, a GGUF file, an embedded model or a shape"
    )
    parser.add_argument(
        "--context",
        type=options.number("the context", 1),
        metavar="N",
        help="tokens of context to plan for (default: 32768, or the most that the model takes)",
    )
    options.add_quantization(parser)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--device", default="auto", metavar="NAME", help=options.DEVICES)
    place.add_argument(
        "--card",
        metavar="CARD",
        help=f"plan for a card that is not in this machine: {', '.join(CARDS)}, or its memory, such as 24GB",
    )
    parser.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="(default: auto)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    device = args.device if args.card is None else card_of(args.card)
    with terminal.note(f"Counting {args.model} …"):
        settings = args.context, args.quantization, device, args.dtype
        from engine.models.opening import plan_model  # imports torch

        plan = plan_model(args.model, *settings)
    if args.json:
        running.print_json(plan.as_dict())
    else:
        _print_table(plan, is_here=args.card is None)
    return 0


def _print_table(plan: Plan, *, is_here: bool) -> None:
    title = f"{plan.model} on {plan.device}, context {plan.context}"
    unit, scale = ("GB", 1e9) if plan.total_bytes >= 1e9 else ("MB", 1e6)
    table = terminal.table(title, "part", unit, "as", "what")
    for column in table.columns[2:]:
        column.justify = "left"
    packed = plan.precision.as_dict()
    for part, count in plan.parts.items():
        if part in NO_TENSORS:
            if count:
                table.add_row(part, f"{count / scale:.3f}", "", CONTENT[part])
            continue
        table.add_row(
            part, f"{count / scale:.3f}", packed.get(part) or (plan.dtype if count else "skipped"), CONTENT[part]
        )
    table.add_section()
    table.add_row("total", f"{plan.total_bytes / scale:.3f}", "", "fits" if plan.fits else "does not fit")
    table.add_row("free now" if is_here else "card has", f"{plan.free_bytes / scale:.3f}", "", "")
    console = terminal.console(sys.stdout)
    console.print(table)
    console.print()
    if plan.copy_bytes:
        size = f"{plan.copy_bytes / scale:.1f} {unit}"
        console.print(f"To import it (safelight quantize FILE FOLDER) writes {size}.", soft_wrap=True)
    for sentence in (plan.advice, *(f"Note: {note}." for note in plan.notes)):
        console.print(sentence, soft_wrap=True)
