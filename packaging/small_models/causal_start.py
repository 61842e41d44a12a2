"""The initial weights of a causal model's run: another run's, or an exported model's.

A masked model may begin with a WeDLM's weights. The norms of queries and keys, which divide them by their size, are
then replaced by fixed factors; the rest is kept. Models of the same architecture can start from each other directly.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import SafelightError
from engine.models.causal.network import CausalNetwork
from engine.models.model import load_model
from small_models.causal_recipes import CAUSAL_RECIPES, WEDLM, CausalRecipe
from small_models.checkpointing import read_state, under
from small_models.text_loss import read_rows
from small_models.text_source import TextSource

Weights = dict[str, Tensor]


def averaged(folder: Path, recipe: CausalRecipe) -> tuple[Weights, str]:
    """Returns the averaged weights of a run on the same shape, or those exported from one, and the recipe's name.

    Args:
        folder: of a run, or of a checkpoint in the published layout.

    Raises:
        SafelightError: there is no such model in the folder.
    """
    if (folder / "config.json").exists():
        model = load_model(folder, device="cpu", dtype="float32")
        names = {recipe.model_type: recipe.name for recipe in CAUSAL_RECIPES.values() if recipe.name != "draft"}
        found, name = model.network.state_dict(), names.get(model.family.model_type, "")
    else:
        tensors, facts = read_state(folder)
        found, name = under("average.", tensors), facts["recipe"]
    if name == "wedlm" and not recipe.is_wedlm:
        found = without_norms(network_of(found, _as_wedlm(recipe), folder), recipe)
    return network_of(found, recipe, folder).state_dict(), name


def network_of(weights: Weights, recipe: CausalRecipe, folder: Path) -> CausalNetwork:
    """Returns a recipe's network with weights from a folder.

    Raises:
        SafelightError: they are of another shape.
    """
    network = CausalNetwork(recipe.model_config())
    if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in network.state_dict().items()}:
        raise SafelightError(f"{folder} holds a model of another shape than the recipe {recipe.name}")
    network.load_state_dict(weights)
    return network


@torch.no_grad()
def without_norms(network: CausalNetwork, recipe: CausalRecipe) -> Weights:
    """Converts a WeDLM's weights for a network whose queries and keys have no norms.

    The mean factor of each head's norm is multiplied into its matrix.

    Args:
        recipe: of the text over which the means are taken.
    """
    rows = TextSource(_as_wedlm(recipe), seed=0).draw(recipe.rows)
    factors: Weights = {}

    def keep(name: str, x: Tensor) -> None:  # (B, heads, T, D)
        factors[name] = (x.square().mean(dim=-1) + recipe.model_config().rms_norm_eps).rsqrt().mean(dim=(0, 2))

    hooks = [
        module.register_forward_pre_hook(lambda _, inputs, name=name: keep(name, inputs[0]))
        for name, module in network.named_modules()
        if name.endswith(("q_norm", "k_norm"))
    ]
    read_rows(network, rows, is_causal=True)
    for hook in hooks:
        hook.remove()
    weights = network.state_dict()
    for name, factor in factors.items():
        rows_of = torch.outer(factor, weights.pop(f"{name}.weight")).flatten()  # (heads · D)
        matrix = f"{name.removesuffix('norm')}proj.weight"
        weights[matrix] = weights[matrix] * rows_of[:, None]
    return weights


def _as_wedlm(recipe: CausalRecipe) -> CausalRecipe:
    return dataclasses.replace(recipe, name=WEDLM.name, objective=WEDLM.objective)
