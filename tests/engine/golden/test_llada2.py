"""LLaDA2, read from checkpoints as they are published, against a plain statement of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.models.causal.network import CausalNetwork
from engine.models.folder import ModelFolder
from tests.engine.golden.causal_reference import check_passes
from tests.engine.golden.llada2_reference import SMALL, drawn, logits, save, shapes

CASES: dict[str, dict[str, Any]] = {
    "as published, in small": {},
    "few experts, all of them run": {"num_experts": 8, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 4},
    "no groups": {"n_group": 1, "topk_group": 1, "num_shared_experts": 2, "routed_scaling_factor": 1.0},
    "one expert a token": {"num_experts_per_tok": 1, "num_shared_experts": 0, "first_k_dense_replace": 0},
    "odd, half of a head turns": {"head_dim": 12, "num_attention_heads": 3, "num_key_value_heads": 1},
}


def opened(folder: Path, raw: dict[str, Any], seed: int) -> ModelFolder:
    return ModelFolder.open(save(folder, raw, drawn(shapes(raw), seed)))


@pytest.mark.parametrize("name", CASES)
def test_every_pass_is_that_of_the_plain_statement(name: str, tmp_path: Path) -> None:
    raw = SMALL | CASES[name]
    ours = opened(tmp_path, raw, len(name)).weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(ours, CausalNetwork)
    check_passes(ours, partial(logits, raw, drawn(shapes(raw), len(name))))
