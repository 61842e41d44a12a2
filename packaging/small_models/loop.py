"""The training loop of small models: steps, rates, running averages, reports and checkpoints.

Muon on the matrices, AdamW on the rest, constant rates that fall to zero over the last part of the run. The result is
a running average of the weights. A subclass chooses the model, the data and the loss.

Rows are drawn between the steps, each source from one random stream, whose state is in the checkpoint.
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path

import torch
from torch import Tensor, nn

from engine.errors import SafelightError
from small_models.checkpointing import STATE, gather, read_state, scatter, write_state
from small_models.made_puzzles import minimal_puzzles
from small_models.muon import Muon
from small_models.recipes import Recipe, TrainingRecipe
from small_models.rows import SudokuSource
from small_models.sources import Source, open_source

PUZZLES, LOG = "puzzles.txt", "log.jsonl"

State = tuple[dict[str, Tensor], dict[str, str]]
"""A checkpoint's tensors and facts."""


def initialise_matrices(model: nn.Module, generator: torch.Generator) -> None:
    """Draws matrices with variance 1 / fan-in."""
    with torch.no_grad():
        for param in model.parameters():
            if param.dim() > 1:
                param.normal_(std=param.shape[-1] ** -0.5, generator=generator)


def has_bf16() -> bool:
    """True if the CPU multiplies bf16; one without such units emulates it, ten times slower."""
    return bool(torch.cpu._is_avx512_bf16_supported())


class TrainingLoop(ABC):
    """A run that can be stopped and resumed at any checkpoint.

    A subclass makes its model, calls ``_train`` with the parameters to be trained, and then ``_open``.

    Args:
        folder: of the run; a checkpoint in it is resumed.
        trained: True if the run begins with a trained model's weights.
    """

    recipe: TrainingRecipe
    sources: list[Source]

    def __init__(self, recipe: TrainingRecipe, folder: Path, seed: int, trained: bool) -> None:
        self.began = time.monotonic()
        self.recipe, self.folder, self.seed, self.trained = recipe, folder, seed, trained
        self.step, self.seconds_before = 0, 0.0
        folder.mkdir(parents=True, exist_ok=True)
        self.sums: dict[str, Tensor] = {}  # running means

    def _train(
        self, named: dict[str, nn.Parameter], generator: torch.Generator, fresh: Collection[str] = (), pace: float = 1.0
    ) -> None:
        """Sets the parameters to be trained, and the generator that they were drawn from.

        Args:
            fresh: names of parameters that are trained at ``pace`` times the recipe's rates.
        """
        recipe = self.recipe
        self.generator = generator
        self.named = named
        self.average = {name: param.detach().clone() for name, param in named.items()}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.rates: dict[str, float] = {}
        for ending, share in (("", 1.0), ("_fresh", pace)):
            own = {n: p for n, p in named.items() if (n in fresh) == bool(ending)}
            matrices = {n: p for n, p in own.items() if p.dim() > 1 and "embed" not in n and "router" not in n}
            others = [p for n, p in own.items() if n not in matrices]
            if matrices:
                self.rates[f"muon{ending}"] = share * recipe.muon_lr
                self.optimizers[f"muon{ending}"] = Muon(matrices.values(), lr=share * recipe.muon_lr)
            if others:
                self.rates[f"adam{ending}"] = share * recipe.adam_lr
                self.optimizers[f"adam{ending}"] = torch.optim.AdamW(
                    others, lr=share * recipe.adam_lr, betas=(0.9, 0.98), weight_decay=0.0
                )

    def _open(self) -> None:
        """Resumes the run in the folder, if there is one, and opens its rows.

        Raises:
            SafelightError: the folder holds another recipe's run.
        """
        before = read_state(self.folder) if (self.folder / STATE).exists() else None
        if before is not None:
            self._resume(*before)
        feeds, puzzles = self.recipe.feeds(self.trained), self.folder / PUZZLES
        if isinstance(self.recipe, Recipe) and any(feed.kind == "sudoku" for feed in feeds):
            for made in minimal_puzzles(self.recipe.puzzles, puzzles):
                if made % 500 == 0:
                    print(f"puzzles {made}", flush=True)
        self.sources = [open_source(feed, self.recipe, self.seed, puzzles) for feed in feeds]
        self._begin(before)

    def _set_givens(self) -> None:
        """Sets the givens of the next Sudokus: easy ones first."""
        for source in self.sources:
            if isinstance(source, SudokuSource) and isinstance(self.recipe, Recipe):
                source.givens = self.recipe.givens(self.step, self.trained)

    @property
    def seconds(self) -> float:
        """Returns the seconds that the run has taken, including those before its last checkpoint."""
        return self.seconds_before + time.monotonic() - self.began

    @property
    def done(self) -> float:
        """Returns the part of the recipe's ``whole`` that is done."""
        return self.recipe.done(self.step, self.seconds)

    def run(self, report_every: int = 20, save_every: float = 60.0) -> None:
        """Trains to the end of the run.

        Args:
            report_every: steps from one report to the next.
            save_every: least seconds between two checkpoints. The first report and the end write one, too.
        """
        first, started, saved = self.step, time.monotonic(), -math.inf
        while self.done < self.recipe.whole:
            factor = self._take_step()
            ends = self.done >= self.recipe.whole
            if not ends and self.step % report_every:
                continue
            record = self._report(factor)
            record["steps_per_second"] = round((self.step - first) / (time.monotonic() - started), 3)
            first, started = self.step, time.monotonic()
            print(json.dumps(record), flush=True)
            with (self.folder / LOG).open("a") as log:
                log.write(json.dumps(record) + "\n")
            if ends or time.monotonic() - saved >= save_every:
                self.save()
                saved = time.monotonic()

    @abstractmethod
    def _add_gradients(self) -> dict[str, Tensor]:
        """Runs the backward passes of a step; returns numbers to report, by name."""

    @abstractmethod
    def _begin(self, before: State | None) -> None:
        """Draws the first rows, and restores what a checkpoint holds besides weights and moments."""

    @abstractmethod
    def _more_tensors(self) -> dict[str, Tensor]:
        """Returns the tensors that a checkpoint must hold besides weights and moments."""

    def _take_step(self) -> float:
        """Takes an optimizer step; returns the share of the rates that it was taken with."""
        recipe = self.recipe
        factor = recipe.factor(self.step, self.done) * (0.5 if self.trained else 1.0)
        self._set_givens()
        for key, value in self._add_gradients().items():
            self.sums[key] = self.sums[key].lerp(value, 0.02) if key in self.sums else value
        torch.nn.utils.clip_grad_norm_([p for p in self.named.values() if p.grad is not None], 1.0)
        for name, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = self.rates[name] * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        keep = min(recipe.ema, (self.step + 1) / (self.step + 10))
        current = [p.detach() for p in self.named.values()]
        torch._foreach_lerp_(list(self.average.values()), current, 1 - keep)
        self.step += 1
        return factor

    def _report(self, factor: float) -> dict[str, float]:
        """Returns the record of a report.

        Raises:
            SafelightError: the loss is not finite.
        """
        sums = {key: round(value.item(), 5) for key, value in self.sums.items()}
        if not all(map(math.isfinite, sums.values())):
            raise SafelightError(f"the loss is not finite at step {self.step}; continue from the last checkpoint")
        return {"step": self.step, "seconds": round(self.seconds, 1), "rate": round(factor, 4)} | sums

    def save(self) -> None:
        tensors = gather(self.named, self.average, self.optimizers) | self._more_tensors()
        tensors["generator"] = self.generator.get_state()
        facts = {"recipe": self.recipe.name, "step": str(self.step), "seconds": str(self.seconds)}
        write_state(self.folder, tensors, facts | {"streams": json.dumps([source.state() for source in self.sources])})

    def _resume(self, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
        if facts["recipe"] != self.recipe.name:
            raise SafelightError(f"{self.folder} holds a run of {facts['recipe']}; give a new folder")
        self.step, self.seconds_before = int(facts["step"]), float(facts["seconds"])
        scatter(tensors, self.named, self.average, self.optimizers)
        print(f"resumed at step {self.step}", flush=True)

    def _resume_streams(self, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
        """Restores the random streams."""
        for source, stood in zip(self.sources, json.loads(facts["streams"]), strict=True):
            source.restore(stood)
        self.generator.set_state(tensors["generator"])
