"""``safelight quantize``: packs a checkpoint into 4 bits once, so that later loads are as fast as the disk."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from app.cli import options, running, terminal
from engine import catalog

EPILOG = """\
Experts go to 4 bits; attention, dense layers and the embedding to 8; the rest stays as it is. A conversion that was
stopped goes on where it stood when the same command is given again.

examples:
  safelight quantize ~/models/diffusiongemma-26B-A4B-it ~/models/diffusiongemma-int4
  safelight quantize safelight-skills packed --to nf4 --json
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "quantize", help="pack a model into 4 bits", description="Pack a model into 4 bits.", epilog=EPILOG
    )
    parser.add_argument("source", type=options.place, metavar="SRC", help="a model folder or an embedded model")
    parser.add_argument(
        "destination", type=options.place, metavar="DST", help="the packed model's folder; new or unfinished"
    )
    parser.add_argument(
        "--to",
        dest="quantization",
        choices=("auto", *(name for name in options.QUANTIZATIONS if name != "none")),
        default="auto",
        help="(default: auto)",
    )
    parser.add_argument("--device", default="auto", metavar="NAME", help="where to compute (default: auto)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a sentence")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    source, destination = catalog.resolve(args.source), Path(args.destination)
    from engine.memory.device import choose  # torch
    from engine.models.folder import quantize

    started = time.perf_counter()
    with terminal.progress(f"Packing {source.name}") as progress:
        manifest = quantize(source, destination, args.quantization, choose(args.device).device, progress)
    size = sum(shard.bytes for shard in manifest.files.values())
    seconds = time.perf_counter() - started
    if args.json:
        running.print_json(
            {
                "source": str(source),
                "destination": str(destination),
                "precision": manifest.precision.as_dict(),
                "bytes": size,
                "files": len(manifest.files),
                "seconds": seconds,
            }
        )
    else:
        amount = f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
        parts = "layers" if manifest.precision.experts is None else "experts"
        print(
            f"{destination} holds {source.name} with {parts} in {manifest.precision.bulk}: {amount} in {seconds:.1f} s"
        )
    return 0
