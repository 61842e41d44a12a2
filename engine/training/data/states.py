"""Training states of an adapter: randomly corrupted answers, or canvases during denoising.

A source gives the loss of a step; ``advance`` is called after the backward pass. Examples and random numbers are drawn
on the CPU, so that they are the same on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.training.data.puzzles import Examples
from engine.training.data.rollout import POOL, Pool, TrainingBatch
from engine.training.loss import Loss, canvas_loss, draw, uniform_loss
from engine.training.network import Prefix, encode, predict
from engine.training.recipes.adapter import AdapterRecipe


class UniformStates:
    """Answers corrupted at random, as in the public recipe."""

    def __init__(
        self, network: DiffusionGemma, examples: Examples, recipe: AdapterRecipe, generator: torch.Generator
    ) -> None:
        self.network, self.examples, self.recipe, self.generator = network, examples, recipe, generator

    def loss(self) -> Loss:
        batch = self.examples.draw(self.recipe.batch)
        draws = draw(batch.target, self.network.config.vocab_size, self.generator)
        device = self.network.device
        batch = TrainingBatch(batch.ids.to(device), batch.present.to(device), batch.target.to(device))
        draws = type(draws)(draws.canvas.to(device), draws.conditioned.to(device))
        end, recipe = self.examples.format.end, self.recipe
        return uniform_loss(self.network, batch, draws, end, recipe.rank_causal > 0, recipe.recompute)

    def advance(self, late: bool) -> float | None:  # noqa: ARG002
        return None

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        pass


class WalkStates:
    """Canvases being denoised (``rollout``). Each prompt is prefilled once, without the adapter, and its KV kept."""

    def __init__(
        self, network: DiffusionGemma, examples: Examples, recipe: AdapterRecipe, generator: torch.Generator
    ) -> None:
        self.network, self.recipe = network, recipe
        self.pool = Pool(examples.draw, recipe.batch, network.config.vocab_size, generator)
        self.prefix = [(keys.contiguous(), values.contiguous()) for keys, values in self._read(self.pool.renewed)]
        self.logits: Tensor | None = None
        self.forward = torch.compile(self._forward, dynamic=False) if recipe.compiled else self._forward

    def loss(self) -> Loss:
        """Returns the loss of the next step, with gradients to the adapters."""
        pool, device = self.pool, self.network.device
        present = None if bool(pool.present.all()) else pool.present.to(device)
        logits = self.forward(pool.canvas.to(device), pool.soft.to(device), self.prefix, present)
        self.logits = logits.detach()
        return Loss(canvas_loss(logits, pool.target.to(device)), None)

    def advance(self, late: bool) -> float | None:
        """Goes on to the next step, after the backward pass. ``late``: in the last part of the run.

        Returns:
            The share of the canvases whose best guess was the answer; None if it is not known.
        """
        assert self.logits is not None
        right = self.pool.advance(self.logits.cpu(), self.recipe.retire_late if late else self.recipe.retire_early)
        renewed = self.pool.renewed
        if bool(renewed.any()):
            for (keys, values), (new_keys, new_values) in zip(self.prefix, self._read(renewed), strict=True):
                keys[renewed], values[renewed] = new_keys, new_values
        return right.item()

    def tensors(self) -> dict[str, Tensor]:
        """Returns the tensors that a checkpoint must hold, besides the random streams."""
        found = {name: getattr(self.pool, name) for name in POOL}
        # reading a prompt again together with other prompts would round differently
        for layer, (keys, values) in enumerate(self.prefix):
            found |= {f"keys.{layer}": keys, f"values.{layer}": values}
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        for name in POOL:
            setattr(self.pool, name, tensors[name])
        device = self.network.device
        self.prefix = [
            (tensors[f"keys.{layer}"].to(device), tensors[f"values.{layer}"].to(device))
            for layer in range(len(self.prefix))
        ]

    def _forward(self, canvas: Tensor, soft: Tensor, prefix: Prefix, present: Tensor | None) -> Tensor:
        return predict(self.network, canvas, soft, prefix, present)

    @torch.no_grad()
    def _read(self, rows: Tensor) -> Prefix:
        ids, present = self.pool.ids[rows], self.pool.present[rows]
        device = self.network.device
        return encode(self.network, ids.to(device), None if bool(present.all()) else present.to(device))[1]


def source_of(
    network: DiffusionGemma, examples: Examples, recipe: AdapterRecipe, generator: torch.Generator
) -> UniformStates | WalkStates:
    kind = WalkStates if recipe.states == "walk" else UniformStates
    return kind(network, examples, recipe, generator)
