"""Networks against their authors' own code on the same weights, small and random; fp32, at most 2e-4 apart."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.causal.network import CausalNetwork
from engine.models.folder import ModelFolder
from tests.engine.golden.causal_reference import check_passes, logits_of
from tests.engine.golden.llada2_reference import SMALL, drawn, save
from tests.real.authors import DLLM, module

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:`rope_scaling`:FutureWarning")]


def _plain_rope(config: Any, device: Any = None, **_: Any) -> tuple[Tensor, float]:
    """The frequencies of a rotation that is not stretched."""
    size = int(config.head_dim * getattr(config, "partial_rotary_factor", 1.0))
    return config.rope_theta ** -(torch.arange(0, size, 2, device=device) / size), 1.0


@pytest.fixture
def old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What their files import that transformers no longer has; none of it computes anything here but the rotation."""

    def decorate(*_: Any, **__: Any) -> Any:
        return lambda function: function

    masks = "transformers.modeling_attn_mask_utils"
    lost: dict[str, dict[str, Any]] = {
        masks: dict.fromkeys(("_prepare_4d_causal_attention_mask", "_prepare_4d_causal_attention_mask_for_sdpa")),
        "transformers.pytorch_utils": {"ALL_LAYERNORM_LAYERS": [], "is_torch_greater_or_equal_than_1_13": True},
        "transformers.utils.import_utils": {"is_torch_fx_available": lambda: False},
        "transformers.utils": dict.fromkeys(
            ("add_start_docstrings", "add_start_docstrings_to_model_forward", "replace_return_docstrings"), decorate
        ),
    }
    monkeypatch.setitem(sys.modules, masks, ModuleType(masks))
    for place, values in lost.items():
        found = importlib.import_module(place)
        for name, value in values.items():
            if not hasattr(found, name):
                monkeypatch.setattr(found, name, value, raising=False)
    ropes = importlib.import_module("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    if "default" not in ropes:
        monkeypatch.setitem(ropes, "default", _plain_rope)


LLADA2: dict[str, dict[str, Any]] = {
    "as published, in small": {},
    "no groups, two shared": {"n_group": 1, "topk_group": 1, "num_shared_experts": 2, "routed_scaling_factor": 1.0},
    "one expert a token, with biases": {"num_experts_per_tok": 1, "use_bias": True, "use_qkv_bias": True},
    "no norms, a quarter turns": {"use_qk_norm": False, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-3},
}


@pytest.mark.usefixtures("old_names")
@pytest.mark.parametrize("version", ["2", "21"])
@pytest.mark.parametrize("name", LLADA2)
def test_llada2(name: str, version: str, tmp_path: Path) -> None:
    raw = SMALL | LLADA2[name]
    folder, package = f"dllm/pipelines/llada{version}/models", f"llada{version}_theirs"
    config = module(
        DLLM, f"{folder}/configuration_llada{version}_moe.py", f"{package}.configuration_llada{version}_moe"
    )
    network = module(DLLM, f"{folder}/modeling_llada{version}_moe.py", f"{package}.modeling_llada{version}_moe")
    settings = {key: value for key, value in raw.items() if key != "model_type"}
    theirs = network.LLaDA2MoeModelLM(
        config.LLaDA2MoeConfig(**settings, attn_implementation="sdpa", use_cache=False)
    ).eval()
    tensors = drawn({key: list(tensor.shape) for key, tensor in theirs.state_dict().items()}, len(name))
    theirs.load_state_dict(tensors)
    ours = ModelFolder.open(save(tmp_path, raw, tensors)).weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(ours, CausalNetwork)
    check_passes(ours, partial(logits_of, theirs))
