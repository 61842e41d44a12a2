"""Networks against their authors' own code on the same weights, small and random; fp32, at most 2e-4 apart."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig, GenerationFinished, generate, load_model
from engine.models.causal.network import CausalNetwork
from engine.models.folder import ModelFolder
from tests.engine.golden.causal_reference import TOLERANCE, check_passes, logits_of
from tests.engine.golden.llada2_reference import SMALL, Tensors, drawn, save
from tests.real import authors
from tests.real.authors import DLLM, module, package

OLD = ("`rope_scaling`", "`rope_config_validation`", "Both `past_key_values`")  # what transformers warns of
pytestmark = [pytest.mark.real, *(pytest.mark.filterwarnings(f"ignore:{name}:FutureWarning") for name in OLD)]


def _plain_rope(config: Any, device: Any = None, **_: Any) -> tuple[Tensor, float]:
    """The frequencies of a rotation that is not stretched."""
    head = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    size = int(head * getattr(config, "partial_rotary_factor", 1.0))
    theta: float = config.rope_theta if hasattr(config, "rope_theta") else config.rope_parameters["rope_theta"]
    return theta ** -(torch.arange(0, size, 2, device=device) / size), 1.0


@pytest.fixture
def old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts back what transformers no longer has. In use: the rotation, and a mask that hides nothing."""

    def seen_whole(mask: Tensor, dtype: torch.dtype) -> Tensor:
        assert mask.all()
        return torch.zeros(len(mask), 1, 1, mask.shape[1], dtype=dtype)

    def decorate(*_: Any, **__: Any) -> Any:
        return lambda function: function

    masks = "transformers.modeling_attn_mask_utils"
    lost: dict[str, dict[str, Any]] = {
        masks: dict.fromkeys(("_prepare_4d_causal_attention_mask", "_prepare_4d_causal_attention_mask_for_sdpa"))
        | {"_prepare_4d_attention_mask": seen_whole},
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


PIPELINES = "dllm/pipelines"


def code(folder: str, *names: str) -> list[ModuleType]:
    """Files of dllm's folder of a model, as modules of one package."""
    package = "theirs_" + folder.replace("/", "_")
    return [module(DLLM, f"{PIPELINES}/{folder}/{name}.py", f"{package}.{name}") for name in names]


def fill(theirs: Any, seed: int) -> Tensors:
    """Draws all weights of a network; returns them."""
    theirs.eval()
    tensors = drawn({name: list(tensor.shape) for name, tensor in theirs.state_dict().items()}, seed)
    theirs.load_state_dict(tensors)
    return tensors


def read(folder: Path, raw: dict[str, Any], tensors: Tensors) -> CausalNetwork:
    """Our network of a checkpoint of those weights."""
    ours = ModelFolder.open(save(folder, raw, tensors)).weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(ours, CausalNetwork)
    return ours


LLADA2: dict[str, dict[str, Any]] = {
    "as published, in small": {},
    "no groups, two shared": {"n_group": 1, "topk_group": 1, "num_shared_experts": 2, "routed_scaling_factor": 1.0},
    "one expert a token, with biases": {"num_experts_per_tok": 1, "use_bias": True, "use_qkv_bias": True},
    "no norms, a quarter turns": {"use_qk_norm": False, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-3},
}


def llada2(raw: dict[str, Any], version: str) -> Any:
    files = (f"configuration_llada{version}_moe", f"modeling_llada{version}_moe")
    config, network = code(f"llada{version}/models", *files)
    settings = {key: value for key, value in raw.items() if key != "model_type"}
    return network.LLaDA2MoeModelLM(config.LLaDA2MoeConfig(**settings, attn_implementation="sdpa", use_cache=False))


@pytest.mark.usefixtures("old_names")
@pytest.mark.parametrize("version", ["2", "21"])
@pytest.mark.parametrize("name", LLADA2)
def test_llada2(name: str, version: str, tmp_path: Path) -> None:
    raw = SMALL | LLADA2[name]
    theirs = llada2(raw, version)
    tensors = fill(theirs, len(name))
    check_passes(read(tmp_path, raw, tensors), partial(logits_of, theirs))


@pytest.mark.usefixtures("old_names")
@pytest.mark.parametrize("edits", [0.3, 0.5, 1.0])
def test_llada2_writes_what_its_own_generate_does(edits: float, tmp_path: Path) -> None:
    """Greedily, with and without edits: their network and decoder, and ours, of the same files."""
    raw = SMALL | {"block_size": 8}
    theirs = llada2(raw, "21")
    tensors = fill(theirs, 3)
    tensors["model.norm.weight"] *= 4  # sharper than at random
    tensors["lm_head.weight"][raw["mask_token_id"]] = 0  # their decoder never ends where a mask is likeliest
    theirs.load_state_dict(tensors)
    forward = theirs.forward

    def in_fp32(ids: Tensor, attention_mask: Tensor, position_ids: Tensor) -> Any:
        return forward(ids, attention_mask=attention_mask.float(), position_ids=position_ids)

    theirs.forward = in_fp32
    ours = load_model(save(tmp_path, raw, tensors), device="cpu", dtype="float32", quantization="none")
    draws, edited = torch.Generator().manual_seed(0), 0
    for length in (1, 5, 8, 11, 16, 23):
        prompt = torch.randint(6, 131, (length,), generator=draws)
        common = {"threshold": 0.6, "eos_early_stop": True, "eos_id": 1, "mask_id": 5}
        wanted = theirs.generate(prompt[None], block_length=8, gen_length=24, editing_threshold=edits, **common)
        steps = GenerationConfig(max_new_tokens=24, eos_token_ids=(1,), max_denoising_steps=64)
        *_, end = generate(ours, prompt, steps.replace(accept_probability=0.6, edit_probability=edits), seed=0)
        assert isinstance(end, GenerationFinished)
        assert end.tokens.tolist() == [token for token in wanted[0].tolist() if token != 1]
        plain = theirs.generate(prompt[None], block_length=8, gen_length=24, editing_threshold=1.0, **common)
        edited += wanted.tolist() != plain.tolist()
    assert (edited > 0) is (edits < 1)


def llada(changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """LLaDA-8B's config in small: each row sees all, a head of its own unless ``weight_tying``."""
    config, network = code("llada/models", "configuration_llada", "modeling_llada")
    raw = {
        "model_type": "llada", "d_model": 32, "n_heads": 4, "n_kv_heads": 4, "n_layers": 3, "mlp_hidden_size": 44,
        "vocab_size": 131, "embedding_size": 131, "max_sequence_length": 64, "activation_type": "silu",
        "block_type": "llama", "layer_norm_type": "rms", "bias_for_layer_norm": False, "rope": True,
        "rope_theta": 5000.0, "weight_tying": False, "mask_token_id": 5, "eos_token_id": 1, "pad_token_id": 0,
    } | changes  # fmt: skip
    settings = {key: value for key, value in raw.items() if key != "model_type"}
    made = config.LLaDAConfig(**settings)
    made.use_cache = False
    inner = network.create_model_config_from_pretrained_config(made)
    inner.init_device = "cpu"
    return network.LLaDAModelLM(made, network.LLaDAModel(inner, init_params=False)), raw


def dream(changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Dream-7B's config in small."""
    config, _, network = code("dream/models", "configuration_dream", "generation_utils", "modeling_dream")
    raw = SHARED | {"model_type": "Dream"} | changes
    settings = {key: value for key, value in raw.items() if key != "model_type"}
    return network.DreamModel(config.DreamConfig(**settings)), raw


def a2d(changes: dict[str, Any], base: str = "Qwen3") -> tuple[Any, dict[str, Any]]:
    """dllm-hub's Qwen3-0.6B in small, or such a model of another base."""
    (network,) = code(f"a2d/models/{base.lower()}", f"modeling_{base.lower()}")
    own = {"head_dim": 16} if base == "Qwen3" else {"attention_bias": False} if base == "Llama" else {}
    raw = SHARED | {"model_type": f"a2d-{base.lower()}"} | own | changes
    settings = {key: value for key, value in raw.items() if key not in ("model_type", "rope_theta")}
    rope = {"rope_type": "default", "rope_theta": raw["rope_theta"]}
    config = getattr(network, f"A2D{base}Config")(**settings, rope_parameters=rope)
    made = getattr(network, f"A2D{base}LMHeadModel")(config)
    for layer in made.model.layers:
        layer.attention_type = "full_attention"  # which transformers no longer has there
    return made, raw


def rnd1(changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """RND1's config in small."""
    package(authors.RND1, "rnd", "theirs_rnd")
    names = ("generation_config", "sampling", "generation_utils", "configuration_rnd", "modeling_rnd")
    *_, config, network = (module(authors.RND1, f"rnd/{name}.py", f"theirs_rnd.{name}") for name in names)
    raw = SHARED | {"model_type": "rnd1", "head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2} | changes
    settings = {key: value for key, value in raw.items() if key not in ("model_type", "rope_theta")}
    rope = {"rope_type": "default", "rope_theta": raw["rope_theta"]}
    config.CONFIG_DEFAULTS.update(settings, rope_parameters=rope)  # these replace what is given
    return network.RND1LM(config.RND1Config()), raw


SHARED: dict[str, Any] = {
    "vocab_size": 131, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rope_theta": 5000.0, "tie_word_embeddings": False,
    "mask_token_id": 5, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
SEEING_ALL: dict[str, tuple[Callable[[dict[str, Any]], tuple[Any, dict[str, Any]]], dict[str, Any]]] = {
    "LLaDA 8B": (llada, {}),
    "LLaDA with groups of heads and biases": (llada, {"n_kv_heads": 2, "include_qkv_bias": True}),
    "LLaDA with a wider table": (llada, {"embedding_size": 256, "rms_norm_eps": 1e-3}),
    "Dream 7B": (dream, {}),
    "Dream, another base": (dream, {"num_key_value_heads": 1, "rope_theta": 100.0, "rms_norm_eps": 1e-3}),
    "RND1": (rnd1, {"moe_intermediate_size": 20, "norm_topk_prob": True}),
    "RND1, experts by plain shares": (rnd1, {"moe_intermediate_size": 20, "norm_topk_prob": False}),
    "a2d Qwen3": (a2d, {}),
    "a2d Qwen2": (partial(a2d, base="Qwen2"), {}),
    "a2d Llama": (partial(a2d, base="Llama"), {}),
    "a2d Qwen3 with biases": (a2d, {"attention_bias": True, "num_key_value_heads": 4}),
}


@pytest.mark.usefixtures("old_names")
@pytest.mark.parametrize("name", SEEING_ALL)
def test_a_text_of_which_each_row_sees_all(name: str, tmp_path: Path) -> None:
    """Whole, and in rows of another order, as bidirectional decoding with a cache reads them."""
    make, changes = SEEING_ALL[name]
    theirs, raw = make(changes)
    ours = read(tmp_path, raw, fill(theirs, len(name)))
    ids = torch.randint(131, (40,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(input_ids=ids[None]).logits[0]
    found = ours.decode(ids, ours.new_cache(), 0, is_causal=False)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    moved = ours.decode(ids[order], ours.new_cache(), 0, positions=order, is_causal=False)
    torch.testing.assert_close(moved, expected[order], atol=TOLERANCE, rtol=0)
    other = ids.clone()
    other[39] = (other[39] + 1) % 131
    with torch.no_grad():
        change = theirs(input_ids=other[None]).logits[0] - expected
    assert change[:39].abs().amax() > 100 * TOLERANCE  # so that a causal mask would be found
