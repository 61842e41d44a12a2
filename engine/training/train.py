r"""Trains an embedded model: ``python -m engine.training.train sudoku --out runs/sudoku``. Resumes by itself.

On two cores, as the shipped models were trained (hours; ``recipes.RECIPES``):

    python -m engine.training.train sudoku --out runs/sudoku --device cpu --compile
    python -m engine.training.train skills --out runs/skills --device cpu --compile
    python -m engine.training.train base --out runs/base --device cpu --compile \
        --start assets/models/safelight-skills --seed 21

Decisions start from the skills; after two hours on one core nine of ten held-out ones, asked one by one, are right:

    python -m engine.training.train decisions --out runs/decisions --device cpu --compile --threads 1 \
        --start assets/models/safelight-skills

So does a model that sees; its tower begins untrained. It learns from pictures of shapes, numbers and Sudokus, with four
questions about each. It may start from its own weights, too:

    python -m engine.training.train sight --out runs/sight --device cpu --compile --threads 1 \
        --start assets/models/safelight-skills

And so does a model that fills the gaps of texts, some of them several on one canvas:

    python -m engine.training.train gaps --out runs/gaps --device cpu --compile \
        --start assets/models/safelight-skills

Small causal models on the same skills (``recipes.causal``). A masked one may begin with a WeDLM's weights; the draft
starts from the masked run:

    python -m engine.training.train wedlm --out runs/wedlm --device cpu --compile --threads 1
    python -m engine.training.train masked --out runs/masked --device cpu --compile --threads 1 \
        --start runs/wedlm
    python -m engine.training.train draft --out runs/draft --device cpu --compile --threads 1 --start runs/masked

``llada`` and ``dream`` learn the same skills by masks that see all of a text; export them to see them answer. They are
not compiled, and no model that ships was trained so.

One thread takes 31 texts a second, 2.1 s a step of 64; 16 a second where nothing is compiled. ``python -m
engine.training.exactness runs/wedlm`` shows at any time how many held-out answers of each skill are right.

On one card, with a C compiler and as many cores as producers (``recipes.CARD_RECIPES``). Sudoku and skills take nine
minutes from the start, compiling and making puzzles included, and end with their rates at zero; base takes 290 steps:

    python -m engine.training.train sudoku --out runs/sudoku --device cuda
    python -m engine.training.train skills --out runs/skills --device cuda
    python -m engine.training.train base --out runs/base --device cuda \
        --start assets/models/safelight-skills --seed 21

Then ``python -m engine.training.export runs/sudoku FOLDER`` and ``safelight sudoku --eval --model FOLDER``. A stopped
run is resumed by the same command, also on another device, and with ``--minutes`` or ``--steps`` as given.

No card has run this yet. Predicted for Sudoku on an H200: 15 ms a step of 512 canvases (1 TFLOP, 1.3 ms; about 50 GB of
activations once compiled, 12 ms), so 34 000 canvases a second and 13 million in the six and a half minutes that are
left after compiling (two) and making puzzles (half a one); two cores make 4 million in a day. It takes as many rows a
second, the work of five producers. In the log ``waited`` is the seconds that steps waited for rows: if it grows on a
card, give more ``--producers``. Memory: at most 25 MB a canvas, 13 GB in all.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path

import torch

from engine.errors import SafelightError
from engine.training.causal_trainer import CausalTrainer
from engine.training.loop import TrainingLoop
from engine.training.recipes.causal import CAUSAL_CARD_RECIPES, CAUSAL_RECIPES, CausalRecipe
from engine.training.recipes.embedded import CARD_RECIPES, RECIPES, Recipe
from engine.training.sight_trainer import SightTrainer
from engine.training.trainer import Trainer

ON_CPU: dict[str, Recipe | CausalRecipe] = {**RECIPES, **CAUSAL_RECIPES}
ON_CARD: dict[str, Recipe | CausalRecipe] = {**CARD_RECIPES, **CAUSAL_CARD_RECIPES}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("recipe", choices=sorted(ON_CPU))
    parser.add_argument("--out", type=Path, required=True, help="folder of the run: checkpoints and log")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="optimizer steps in all")
    length.add_argument("--minutes", type=float, help="in all, from the first start on; instead of steps")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="it chooses the recipe")
    parser.add_argument("--batch", type=int, help="canvases or texts a step; the rates follow its root")
    parser.add_argument("--producers", type=int, help="processes that make rows ahead; 0 makes them between the steps")
    parser.add_argument("--start", type=Path, help="folder to take the first weights from: a model, or a causal run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves it to torch")
    parser.add_argument(
        "--compile",
        action=argparse.BooleanOptionalAction,
        help="faster after a minute or two; needs a compiler. On a card it is on",
    )
    return parser


def chosen_recipe(args: argparse.Namespace, device: str) -> Recipe | CausalRecipe:
    """Returns the device's recipe with the changes of the command line."""
    recipe = (ON_CARD if device == "cuda" else ON_CPU)[args.recipe]
    if args.batch is not None:
        recipe = recipe.with_batch(args.batch)
    most = max(1, (os.cpu_count() or 1) - 2)  # the trainer keeps one core busy, the system needs one
    producers = min(recipe.producers, most) if args.producers is None else args.producers
    recipe = dataclasses.replace(recipe, producers=producers)
    if args.steps is not None or args.minutes is not None:
        recipe = dataclasses.replace(recipe, steps=args.steps or 0, minutes=args.minutes or 0.0)
    return recipe


Settings = tuple[Path, int, str, bool, Path | None]  # folder, seed, device, True to compile, start


def _open(recipe: Recipe | CausalRecipe, settings: Settings) -> TrainingLoop:
    if isinstance(recipe, CausalRecipe):
        return CausalTrainer(recipe, *settings)
    return Trainer(recipe, *settings) if recipe.vision is None else SightTrainer(recipe, *settings)


def main() -> int:
    args = arguments().parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        device = args.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        elif device == "cuda" and not torch.cuda.is_available():
            raise SafelightError("no CUDA device was found; train on the CPU with --device cpu")
        recipe = chosen_recipe(args, device)
        compiled = device == "cuda" if args.compile is None else args.compile
        settings = args.out, args.seed, device, compiled, args.start
        _open(recipe, settings).run()
    except SafelightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
