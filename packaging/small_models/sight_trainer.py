"""A training run of a model that sees, on drawings and some of the skills. The losses are in ``sight``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from engine.models.vision.tower import VisionTower
from small_models.loop import initialise_matrices
from small_models.picture_rows import PicturePool, PictureReads
from small_models.recipes import Feed
from small_models.sight import cell_loss, probe, sight_loss, soft_tokens
from small_models.trainer import AnyPool, Trainer


class SightTrainer(Trainer):
    """A run of a DiffusionGemma with a tower. The tower and its probe are new, and have their own rates."""

    def _take_parameters(self, generator: torch.Generator) -> None:
        tower = self.model.vision
        assert isinstance(tower, VisionTower)
        look = torch.compile(soft_tokens, dynamic=False) if self.compiled else soft_tokens
        self.look: Callable[[Tensor, Tensor], Tensor] = partial(look, tower)
        self.probe = probe(self.model)
        initialise_matrices(self.probe, generator)
        named = dict(self.model.named_parameters()) | {f"probe.{n}": p for n, p in self.probe.named_parameters()}
        fresh = {name for name in named if name.startswith(("vision.", "probe."))}
        self._train(named, generator, fresh, self.recipe.tower_rates)

    def _loss(self, pool: AnyPool) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        if not isinstance(pool, PicturePool | PictureReads):
            return super()._loss(pool)
        soft = self.look(pool.pixels, pool.size)
        if isinstance(pool, PicturePool):
            return sight_loss(self.model, self.probe, soft, pool, self.run_layer)
        scores = self.probe(soft)
        return cell_loss(scores, pool.cells, pool.size), scores, {}

    def _add_gradient(self, loss: Tensor) -> None:
        """Adds a pool's gradient, clipped to a norm of 1: those of the new parts are far larger than the others."""
        params = list(self.named.values())
        others = [param.grad for param in params]
        for param in params:
            param.grad = None
        super()._add_gradient(loss)
        torch.nn.utils.clip_grad_norm_([param for param in params if param.grad is not None], 1.0)
        for param, other in zip(params, others, strict=True):
            if other is not None:
                param.grad = other if param.grad is None else param.grad + other

    def _pool(self, index: int, feed: Feed) -> AnyPool:
        draw = self.sources[index].draw
        if feed.kind == "cells":
            return PictureReads(draw, feed.rows)
        if feed.kind in ("drawings", "sudokus"):
            return PicturePool(draw, feed.rows, self.model.config.vocab_size, self.generator)
        return super()._pool(index, feed)
