"""Trains a small model: the command ``train``. It goes on by itself where it was stopped."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import torch

from engine.errors import SafelightError
from small_models.causal_recipes import CAUSAL_RECIPES, CausalRecipe
from small_models.causal_trainer import CausalTrainer
from small_models.loop import TrainingLoop
from small_models.recipes import RECIPES, Recipe
from small_models.sight_trainer import SightTrainer
from small_models.trainer import AdapterTrainer, Trainer

ALL: dict[str, Recipe | CausalRecipe] = {**RECIPES, **CAUSAL_RECIPES}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", choices=sorted(ALL))
    parser.add_argument("--out", type=Path, required=True, help="folder of the run: checkpoints and log")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, help="optimizer steps in all")
    length.add_argument("--minutes", type=float, help="in all, from the first start on; instead of steps")
    parser.add_argument("--start", type=Path, help="folder to take the first weights from: a model, or a causal run")
    parser.add_argument("--teacher", type=named, action="append", metavar="NAME=FOLDER", help="a model to learn from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves it to torch")
    parser.add_argument("--compile", action="store_true", help="faster after a minute or two; needs a compiler")


def run(args: argparse.Namespace) -> None:
    if args.threads:
        torch.set_num_threads(args.threads)
    recipe = ALL[args.recipe]
    if args.steps is not None or args.minutes is not None:
        recipe = dataclasses.replace(recipe, steps=args.steps or 0, minutes=args.minutes or 0.0)
    opened(recipe, args.out, args.seed, args.compile, args.start, dict(args.teacher or ())).run()


def named(text: str) -> tuple[str, Path]:
    """Reads a teacher's name and folder, as in ``tools=runs/tools``."""
    name, _, folder = text.partition("=")
    if not folder:
        raise argparse.ArgumentTypeError(f"{text}: write it as NAME=FOLDER")
    return name, Path(folder)


def opened(
    recipe: Recipe | CausalRecipe,
    out: Path,
    seed: int = 0,
    compiled: bool = False,
    start: Path | None = None,
    teachers: Mapping[str, Path] | None = None,
) -> TrainingLoop:
    """Opens the run of a recipe."""
    if isinstance(recipe, CausalRecipe):
        return CausalTrainer(recipe, out, seed, compiled, start)
    if recipe.rank:
        if start is None:
            raise SafelightError("an adapter is trained over a model; give the base as --start")
        return AdapterTrainer(recipe, out, seed, compiled, start)
    return (Trainer if recipe.vision is None else SightTrainer)(recipe, out, seed, compiled, start, teachers)
