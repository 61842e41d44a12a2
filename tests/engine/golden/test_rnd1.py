"""RND1: its network is Qwen3-MoE's, whose rows see all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from engine import SafelightError
from engine.catalog import ASSETS
from engine.files import read_json, write_json
from engine.models.causal.network import CausalNetwork
from engine.models.folder import ModelFolder
from engine.weights.matrices import matrices
from tests.engine.golden.causal_reference import TOLERANCE, VOCABULARY, logits_of, randomised
from tests.engine.golden.llada2_reference import Tensors, save

BASE = read_json(ASSETS / "configs" / "rnd1" / "config.json")
THEIRS = {"rope_scaling": False, "sliding_window": False}  # as their own class writes "none"


def published(tensors: Tensors) -> Tensors:
    """Writes the experts one by one."""
    found = Tensors()
    for name, tensor in tensors.items():
        if tensor.dim() == 2 or ".experts." not in name:
            found[name] = tensor.contiguous()
            continue
        for matrix in matrices(name, name, tuple(tensor.shape)):
            found[f"{matrix.name}.weight"] = tensor[matrix.place].clone()
    return found


def test_a_text_of_which_each_row_sees_all(tmp_path: Path) -> None:
    small = BASE | {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    small |= {"num_key_value_heads": 2, "head_dim": 8, "num_experts": 12, "num_experts_per_tok": 3}
    small |= {"moe_intermediate_size": 20, "mask_token_id": 5, "eos_token_id": 1}
    rope = {"rope_type": "default", "rope_theta": BASE["rope_theta"]}
    theirs = randomised(Qwen3MoeForCausalLM(Qwen3MoeConfig(**small, rope_parameters=rope)))
    ours = ModelFolder.open(save(tmp_path, small | THEIRS, published(dict(theirs.state_dict()))))
    network = ours.weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(network, CausalNetwork)
    assert network.config.shifts_masks
    ids = torch.randint(VOCABULARY, (30,), generator=torch.Generator().manual_seed(1))
    expected = logits_of(theirs, ids, torch.arange(30), torch.ones(30, 30, dtype=torch.bool))
    found = network.decode(ids, network.new_cache(), 0, is_causal=False)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("changes", [{"mlp_only_layers": [0]}, {"decoder_sparse_step": 2}])
def test_layers_without_experts_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", BASE | changes)
    with pytest.raises(SafelightError, match="is not supported, only"):
        ModelFolder.open(tmp_path)
