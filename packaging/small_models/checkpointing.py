"""A training run's state as one safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from torch.optim import Optimizer

from engine.errors import SafelightError
from engine.weights.safetensors import save_whole

STATE = "state.safetensors"


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads a run's last checkpoint: its tensors, and the recipe's name, step, seconds and random streams of the data.

    Raises:
        SafelightError: there is none.
    """
    if not (folder / STATE).exists():
        raise SafelightError(f"{folder} holds no run; give the folder of a run that was trained before")
    with safe_open(folder / STATE, framework="pt") as opened:
        facts = dict(opened.metadata())
    return load_file(folder / STATE), facts


def write_state(folder: Path, tensors: Mapping[str, Tensor], facts: dict[str, str]) -> None:
    """Writes a checkpoint completely or not at all."""
    save_whole(folder / STATE, {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, facts)


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with a prefix, named without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def gather(
    named: Mapping[str, Tensor],
    average: Mapping[str, Tensor],
    optimizers: Mapping[str, Optimizer],
) -> dict[str, Tensor]:
    """Collects the weights, their average and the optimizers' moments, by name."""
    tensors = {f"model.{n}": p for n, p in named.items()} | {f"average.{n}": p for n, p in average.items()}
    names = {id(p): n for n, p in named.items()}
    for label, optimizer in optimizers.items():
        for param, state in optimizer.state.items():
            tensors |= {f"{label}.{key}.{names[id(param)]}": value for key, value in state.items()}
    return tensors


@torch.no_grad()
def scatter(
    tensors: Mapping[str, Tensor],
    named: Mapping[str, Tensor],
    average: Mapping[str, Tensor],
    optimizers: Mapping[str, Optimizer],
) -> None:
    """Copies what ``gather`` collected back."""
    for key, value in tensors.items():
        head, _, rest = key.partition(".")
        if head == "model":
            named[rest].copy_(value)
        elif head == "average":
            average[rest].copy_(value)
        elif head in optimizers:
            field, _, name = rest.partition(".")
            optimizers[head].state[named[name]][field] = value.clone()
