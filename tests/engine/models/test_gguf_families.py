"""GGUF files of dense causal models, written from transformers' models under the ``gguf`` package's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, get_tensor_name_map
from gguf import GGMLQuantizationType as Kind
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModelForCausalLM, PreTrainedModel

from engine import SafelightError, catalog, load_model
from engine.files import read_json
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.models.gguf_import import GGUFModel, import_gguf, plan_import
from engine.weights.gguf import checkpoint
from tests.engine import gguf_files
from tests.engine.golden.causal_reference import VOCABULARY, build

CPU = torch.device("cpu")
EMBEDDED = catalog.resolve(catalog.GAPS)
ODD = {"hidden_size": 30, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 51}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 5000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
}
QUERIES = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}
NEAR = {"rope_type": "default", "rope_theta": 10_000.0}
FAR = {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0}
GEMMA = {
    "num_hidden_layers": 7,
    "head_dim": 14,
    "query_pre_attn_scalar": 14,
    "sliding_window": 7,
    "rope_parameters": {"full_attention": FAR, "sliding_attention": NEAR},
}
SPARSE = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": False}
WHOLE = {  # rows of whole blocks, and as many tokens as the tokenizer has
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {  # architecture, transformers' family, its shape
    "llama": ("llama", "llama", {**ODD, "head_dim": 12}),
    "llama 3.2": ("llama", "llama", {"rope_parameters": LLAMA3, "head_dim": 48, "tie_word_embeddings": True}),
    "llama with biases": ("llama", "llama", {"attention_bias": True}),
    "smollm3": ("smollm3", "smollm3", {"num_hidden_layers": 5}),
    "mistral 3": ("mistral3", "ministral3", {**ODD, "head_dim": 12, "rope_parameters": QUERIES}),
    "qwen2": ("qwen2", "qwen2", {**ODD, "rope_parameters": YARN}),
    "qwen3": ("qwen3", "qwen3", {**ODD, "head_dim": 12, "tie_word_embeddings": True}),
    "gemma 3": ("gemma3", "gemma3_text", {**ODD, **GEMMA}),
    "llada": ("llada", "llama", {**ODD, "head_dim": 10}),
    "llada-moe": ("llada-moe", "qwen3_moe", {"num_key_value_heads": 4, **SPARSE}),
    "dream": ("dream", "qwen2", ODD),
}
MASKED = ("llada", "llada-moe", "dream")  # read causally here, as the models of transformers are


def keys_of(made: PreTrainedModel, architecture: str) -> dict[str, Any]:
    """The keys that llama.cpp's converter writes of a model."""
    raw = made.config.to_dict()
    size = raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"]
    rope = raw["rope_parameters"]
    rope = rope.get("full_attention", rope)
    own = {
        "block_count": raw["num_hidden_layers"],
        "context_length": raw["max_position_embeddings"],
        "embedding_length": raw["hidden_size"],
        "feed_forward_length": raw["intermediate_size"],
        "attention.head_count": raw["num_attention_heads"],
        "attention.head_count_kv": raw["num_key_value_heads"],
        "attention.key_length": size,
        "attention.value_length": size,
        "rope.dimension_count": size,
        "attention.layer_norm_rms_epsilon": raw["rms_norm_eps"],
        "rope.freq_base": rope["rope_theta"],
    }
    if architecture == "llada-moe":
        own |= {"expert_count": made.config.num_experts, "expert_used_count": raw["num_experts_per_tok"]}
        own["expert_feed_forward_length"] = raw["moe_intermediate_size"]
    if architecture == "gemma3":
        own["attention.sliding_window"] = raw["sliding_window"]
    if rope["rope_type"] in ("linear", "yarn"):
        own |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if rope["rope_type"] == "yarn":
        own["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        own |= {f"rope.scaling.yarn_{name}": rope[name] for name in ("beta_fast", "beta_slow")}
    if "mscale_all_dim" in rope:
        own["rope.scaling.yarn_log_multiplier"] = rope["mscale_all_dim"]
        own["attention.temperature_scale"] = rope["llama_4_scaling_beta"]
    named = {"general.name": "Tiny model"} | ({"tokenizer.ggml.mask_token_id": 4} if architecture in MASKED else {})
    return {f"{architecture}.{name}": value for name, value in own.items()} | named


def by_turns(weight: Tensor, heads: int) -> Tensor:
    """Each head's rows with those of its first half and of its second by turns."""
    halves = weight.unflatten(0, (heads, 2, -1))
    return halves.transpose(1, 2).reshape(weight.shape)


def tensors_of(made: PreTrainedModel, architecture: str, kind: Kind = Kind.F32) -> dict[str, Any]:
    """The tensors as the converter writes them, under the ``gguf`` package's names."""
    arch = next(arch for arch, name in MODEL_ARCH_NAMES.items() if name == architecture)
    config = made.config
    names, found = get_tensor_name_map(MODEL_ARCH(arch), config.num_hidden_layers), dict[str, Any]()
    for name, tensor in made.state_dict().items():
        stem, _, ending = name.rpartition(".")
        if stem == "lm_head" and config.tie_word_embeddings:
            continue
        if stem.endswith("mlp.experts"):  # two matrices in one stack, which the converter stores apart
            parts = dict(zip(("gate", "up"), tensor.chunk(2, 1), strict=True)) if "gate" in ending else {"down": tensor}
            for part, stack in parts.items():
                name = f"blk.{stem.split('.')[2]}.ffn_{part}_exps.weight"
                found[name] = gguf_files.encoded(gguf_files.plain(stack), kind), kind
            continue
        if architecture in ("llama", "smollm3", "mistral3", "llada") and stem.endswith(("q_proj", "k_proj")):
            heads = config.num_attention_heads if stem.endswith("q_proj") else config.num_key_value_heads
            tensor = by_turns(tensor, heads)
        if architecture == "gemma3" and stem.endswith("norm"):
            tensor = tensor + 1
        own = Kind.F32 if tensor.dim() == 1 else kind
        found[f"{names.get_name(stem)}.{ending}"] = gguf_files.encoded(gguf_files.plain(tensor), own), own
    rope = config.rope_parameters
    if rope.get("rope_type") == "llama3":  # what slows each pair down
        ours = 1 / rope["rope_theta"] ** (torch.arange(0, config.head_dim, 2) / config.head_dim)
        found["rope_freqs.weight"] = gguf_files.plain(ours / made.model.rotary_emb.inv_freq), Kind.F32
    return found


def write(path: Path, made: PreTrainedModel, architecture: str, kind: Kind = Kind.F32, **changes: Any) -> Path:
    """A whole file; ``changes`` are keys, or tensors by their names."""
    said = keys_of(made, architecture) | gguf_files.tokenizer_values(EMBEDDED)
    tensors = tensors_of(made, architecture, kind)
    said |= {name: value for name, value in changes.items() if not name.endswith(".weight")}
    tensors |= {name: value for name, value in changes.items() if name.endswith(".weight")}
    return gguf_files.write(path, said, {n: each for n, each in tensors.items() if each is not None}, architecture)


def opened(file: Path) -> tuple[GGUFModel, CausalNetwork]:
    found = GGUFModel.open_file(file)
    network = found.weights("none", CPU, torch.float32).load()
    assert isinstance(network, CausalNetwork)
    return found, network


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_model_that_was_written(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where matrices are read in pieces that end within a head."""
    architecture, kind, changes = CASES[name]
    made = build(kind, seed=len(name), **changes)
    file = write(tmp_path / "tiny.gguf", made, architecture)
    ids = torch.randint(VOCABULARY, (40,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = made(input_ids=ids[None]).logits[0]
    for most in (2**24, 5 * 32):
        monkeypatch.setattr(checkpoint, "AT_ONCE", most)
        found, network = opened(file)
        torch.testing.assert_close(network.decode(ids, network.new_cache(), 0), expected, atol=2e-4, rtol=0)
    made.save_pretrained(tmp_path / "folder")
    raw = read_json(tmp_path / "folder" / "config.json")
    if architecture in MASKED:
        return
    as_published = found.family.read_config(raw)
    assert isinstance(as_published, CausalConfig)
    assert isinstance(found.config, CausalConfig)
    assert found.config.layers == as_published.layers
    assert found.config.rope_scaling == as_published.rope_scaling


@pytest.mark.parametrize("name", ["qwen2", "gemma 3"])
def test_transformers_reads_the_same_numbers_from_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # its thread would stay
    architecture, kind, changes = CASES[name]
    made = build(kind, **changes | WHOLE | {"head_dim": 8})
    file = write(tmp_path / "tiny.gguf", made, architecture, Kind.Q4_0 if name == "qwen2" else Kind.Q8_0)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file.name, dtype=torch.float32).state_dict()
    own = opened(file)[1].state_dict()
    assert own
    for path, tensor in own.items():
        torch.testing.assert_close(tensor, theirs[path if path in theirs else f"model.{path}"], atol=1e-6, rtol=0)


def test_it_is_planned_imported_and_loaded(tmp_path: Path) -> None:
    """A small model without experts goes to eight bits where nobody asks for four."""
    made = build("llama", hidden_size=64, intermediate_size=128, head_dim=16, max_position_embeddings=512)
    file = write(tmp_path / "tiny.gguf", made, "llama", Kind.Q8_0)
    planned = plan_import(file, quantization="auto")
    manifest = import_gguf(file, tmp_path / "store", "auto", CPU)
    assert str(manifest.precision.bulk) == "int8"
    written = sum(shard.bytes for shard in manifest.files.values())
    assert planned.copy_bytes == pytest.approx(written, rel=0.2)  # norms in fp32, and headers
    assert not planned.notes
    model = load_model(tmp_path / "store", device="cpu")
    assert model.family.model_type == "llama"
    assert model.generation_defaults.eos_token_ids == (1,)
    prompt = torch.tensor(model.chat_ids([{"role": "user", "content": "hello"}]))
    logits = model.decode(prompt, model.new_cache(), 0)
    with torch.no_grad():
        expected = made(input_ids=prompt[None]).logits[0]
    assert (logits - expected).norm() / expected.norm() < 0.3  # the packing's


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("llama", {"llama.block_count": None}, "lacks the key llama.block_count"),
        ("llama", {"llama.feed_forward_length": [51, 51, 51]}, "has a list under the key llama.feed_forward_length"),
        ("llama", {"llama.embedding_length": 64}, "a token table of the width 30 for an embedding length of 64"),
        ("llama", {"llama.attention.head_count_kv": 2}, "2 key-value heads, which do not divide 3"),
        ("llama", {"llama.attention.value_length": 24}, "has llama.attention.value_length 24 for heads of 12"),
        ("llama", {"llama.rope.scaling.type": "longrope"}, "rope.scaling.type 'longrope'; none, linear and yarn"),
        ("llama", {"llama.rope.scaling.attn_factor": 0.5}, "only 1 is implemented"),
        ("llama", {"blk.1.ffn_up.weight": None}, "tensor blk.1.ffn_up.weight is missing"),
        ("llama", {"rope_freqs.weight": (gguf_files.plain(torch.ones(3)), Kind.F32)}, r"rope_freqs.weight of shape"),
        ("llama", {"rope_freqs.weight": (gguf_files.plain(torch.arange(1.0, 7.0)), Kind.F32)}, "kind than Llama 3's"),
        ("gemma 3", {"gemma3.attention.sliding_window": None}, "lacks the key gemma3.attention.sliding_window"),
        ("mistral 3", {"mistral3.attention.temperature_length": 99}, "another length than YaRN's"),
    ],
)
def test_bad_files(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    architecture, kind, shape = CASES[name]
    file = write(tmp_path / "tiny.gguf", build(kind, **shape), architecture, **changes)
    with pytest.raises(SafelightError, match=message) as caught:
        opened(file)
    assert "tiny.gguf" in str(caught.value)


def test_a_matrix_in_pieces_is_not_packed_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "AT_ONCE", 64 * 8)
    made = build("qwen3", hidden_size=64, intermediate_size=128, head_dim=16)
    file = write(tmp_path / "tiny.gguf", made, "qwen3")
    with pytest.raises(SafelightError, match="is too large to be packed as nvfp4 from a GGUF file; use int4"):
        import_gguf(file, tmp_path / "store", "nvfp4", CPU)
    assert import_gguf(file, tmp_path / "store", "nf4", CPU).files
