"""Tiny networks taught by the objective of a published family, and stored as its checkpoints.

A file for each of them says what its texts are: ``python -m tests.engine.NAME`` trains it anew.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import save_file
from torch import nn

from engine.files import write_json
from engine.models.causal.network import CausalNetwork, build
from engine.models.folder import ModelFolder
from engine.models.registry import family_of
from tests.engine.objectives import Objective, noise, objective_loss

Text: TypeAlias = Callable[[random.Random], tuple[list[int], list[bool]]]
"""Makes a text, always as long: its tokens, and which of them the model writes."""
FIXTURES = Path(__file__).parents[1] / "fixtures"


def taught(name: str) -> Any:
    """The network that is stored as ``name``."""
    return ModelFolder.open(FIXTURES / name).weights("none", torch.device("cpu"), torch.float32).load()


def teach(
    shape: dict[str, Any],
    text: Text,
    objective: Objective,
    seconds: float,
    rows: int = 20,
    seed: int = 0,
    build: Callable[[Any], Any] = build,
) -> CausalNetwork:
    """Train a new one of a ``config.json`` for so long, on one core; random tokens are below its mask."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng, draws = random.Random(seed), torch.Generator().manual_seed(seed)
    network: CausalNetwork = build(family_of(shape).read_config(shape))
    mask = network.config.mask_token_id
    assert mask is not None
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5) if parameter.dim() > 1 else nn.init.ones_(parameter)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    started, step = time.perf_counter(), 0
    while (share := (time.perf_counter() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, step / 50) * (1 - share)
        texts = [text(rng) for _ in range(rows)]
        clean, own = torch.tensor([ids for ids, _ in texts]), torch.tensor([own for _, own in texts]).float()
        loss = objective_loss(network, noise(clean, own, mask, mask, objective, draws), objective.shifts)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 200 == 0:
            print(step, f"{loss.item():.4f}", flush=True)
    return network


def store(network: CausalNetwork, shape: dict[str, Any], name: str) -> None:
    """Store a network under the names of its family's tensors, in bf16."""
    names, folder = family_of(shape).names, FIXTURES / name
    tensors = {names.released(path): tensor.detach().bfloat16() for path, tensor in network.state_dict().items()}
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    write_json(folder / "config.json", shape)
