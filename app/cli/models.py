"""``safelight models``: the models on this computer, by the names that ``--model`` takes."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from app.cli import options, running, terminal
from engine import found
from engine.catalog import SMALL, installed

EPILOG = """\
Looks into the Hugging Face cache (HF_HOME, HF_HUB_CACHE), the folders of LM Studio, Ollama (OLLAMA_MODELS), llama.cpp
(LLAMA_CACHE) and Jan, and into folders that were added in the window. Reads no weights and changes nothing.

examples:
  safelight models
  safelight generate "Why is the sky blue?" --model ORG/NAME
  safelight models --json
"""
REASONS = {
    "family": "needs a family that is not supported",
    "form": "stored in a form that is not read",
    "damaged": "damaged or not whole",
    "none": "no language model",
}


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "models",
        run,
        "list the models on this computer",
        "List the models on this computer, by the names that --model takes.",
        EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> int:
    known = found.scan(found.kept())
    ids = [SMALL, *(model.id for model in installed())]
    if args.json:
        running.print_json({"installed": ids, "found": [each.as_dict() for each in known]})
        return 0
    table = terminal.table("Models on this computer", "name", "size", "family", "in")
    for id in ids:
        table.add_row(id, "", "", "Safelight")
    for each in known:
        if each.runs:
            table.add_row(each.name, _size(each.bytes), each.family, each.store)
    console = terminal.console(sys.stdout)
    console.print(table)
    kinds = Counter(each.why for each in known if not each.runs)
    if kinds:
        console.print(f"\nNot usable here: {kinds.total()}", soft_wrap=True)
    for why in kinds:
        for each in known:
            if each.why == why:
                console.print(f"  {each.name}: {REASONS[why]} ({each.detail})", soft_wrap=True, markup=False)
    return 0


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
