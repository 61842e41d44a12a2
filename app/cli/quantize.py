"""``safelight quantize``: packs a checkpoint or a GGUF file once, so that later loads are as fast as the disk."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from app.cli import options, running, terminal
from engine import SafelightError, catalog
from engine.model_files import is_gguf, model_title

EPILOG = """\
Packs experts in 4 bits; attention, dense layers, the embedding and the vision tower in 8; the rest is unchanged. If a
conversion was stopped, the same command goes on from there.

GGUF files of DiffusionGemma, Llama, SmolLM3, Mistral, Qwen2, Qwen3 and Gemma 3 are imported, with any quantization. If
the model is in several files, give any of them. Models without experts and with fewer than two billion parameters are
packed in 8 bits, since 4 bits harm a small model; --to int4 packs them in 4 bits anyway. Each packing loses a little;
files in Q8_0 lose least. GGUF files have no vision tower: images need the original checkpoint.

examples:
  safelight quantize ~/models/diffusiongemma-26B-A4B-it ~/models/diffusiongemma-int4
  safelight quantize ~/Downloads/diffusiongemma-26B-A4B-it-Q8_0.gguf ~/models/diffusiongemma-int4
  safelight quantize safelight-mini packed-nf4 --to nf4 --json
"""


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "quantize", run, "pack a model into 4 bits", "Pack a model into 4 bits.", EPILOG)
    parser.add_argument(
        "source", type=options.place, metavar="SRC", help="a model folder, a GGUF file or an embedded model"
    )
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
    parser.add_argument(
        "--tokenizer",
        type=options.place,
        metavar="FOLDER",
        help="for a GGUF file: take tokenizer and chat template from this model folder",
    )
    parser.add_argument("--device", default="auto", metavar="NAME", help="where to compute (default: auto)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a sentence")


def run(args: argparse.Namespace) -> int:
    source, destination = catalog.resolve(args.source, files=True), Path(args.destination)
    imports = is_gguf(source)
    if args.tokenizer is not None and not imports:
        raise SafelightError("--tokenizer is for GGUF files; a model folder has its own")
    from engine.memory.device import choose  # imports torch
    from engine.models.folder import quantize

    started, name = time.perf_counter(), model_title(source)
    with terminal.progress(f"Packing {name}") as progress:
        device = choose(args.device).device
        if imports:
            from engine.models.gguf_import import import_gguf  # imports the GGUF library, which nothing else needs

            tokenizer = None if args.tokenizer is None else catalog.resolve(args.tokenizer)
            manifest = import_gguf(source, destination, args.quantization, device, progress, tokenizer=tokenizer)
        else:
            manifest = quantize(source, destination, args.quantization, device, progress)
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
        terminal.show(
            f"{destination} holds {name} with {parts} in {manifest.precision.bulk}: {amount} in {seconds:.1f} s"
        )
        if imports:
            print("text only: images need the original checkpoint")
    return 0
