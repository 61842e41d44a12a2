"""A training run of a model that sees, on drawings and some of the skills. The losses are in ``sight``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from engine.models.vision.tower import VisionTower
from engine.training.data.decisions import Reads
from engine.training.data.drawings import PicturePool
from engine.training.data.rollout import Pool
from engine.training.loop import initialise_matrices
from engine.training.recipes.embedded import Recipe
from engine.training.sight import cut, probe, sight_loss
from engine.training.trainer import Trainer


class SightTrainer(Trainer):
    """A run of a DiffusionGemma with a tower. The tower and the probe of it are new, and have rates of their own."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        seed: int = 0,
        device: str = "cpu",
        compiled: bool = False,
        start: Path | None = None,
    ) -> None:
        self.compiled = compiled
        super().__init__(recipe, folder, seed, device, compiled, start)

    def _take_parameters(self, generator: torch.Generator) -> None:
        tower = self.model.vision
        assert isinstance(tower, VisionTower)
        self.tower: Callable[[Tensor, int, int], Tensor] = (
            torch.compile(tower, dynamic=False) if self.compiled else tower
        )
        self.probe = probe(self.model)
        initialise_matrices(self.probe, generator)
        self.probe.to(self.device)
        named = dict(self.model.named_parameters()) | {f"probe.{n}": p for n, p in self.probe.named_parameters()}
        fresh = {name for name in named if name.startswith(("vision.", "probe."))}
        self._train(named, generator, fresh, self.recipe.tower_rates)

    def _loss(self, pool: Pool | Reads) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        if not isinstance(pool, PicturePool):
            return super()._loss(pool)
        vision = self.model.config.vision
        assert vision is not None
        patches = cut(pool.pixels, vision)
        side = int(patches.shape[1] ** 0.5)
        return sight_loss(self.model, self.probe, self.tower(patches, side, side), pool, self.run_layer)

    def _fill_pools(self) -> list[Pool | Reads]:
        if self.ahead:
            self._reseed()
        size = self.model.config.vocab_size
        kinds = [PicturePool if feed.kind == "drawings" else Pool for feed in self.recipe.mix]
        return [
            kind(partial(self.rows.draw, index), feed.rows, size, self.generator, self.ahead)
            for index, (kind, feed) in enumerate(zip(kinds, self.recipe.mix, strict=True))
        ]
