"""GGUF files of tiny models, by the ``gguf`` package's own writer; and encoders for the types that it only reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, TokenType
from gguf.quants import IQ4_NL, quantize
from numpy.typing import NDArray
from torch import Tensor

from engine import ModelConfig
from engine.config import LayerConfig
from engine.models.diffusion_gemma.gguf import ARCHITECTURE, ROPE, tensor_name
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.tiny import network

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
SHAPE: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 64,
    "moe_intermediate_size": 64,
    "layers": (
        LayerConfig("sliding_attention", 16, 2, 10_000.0, 1.0),
        LayerConfig("full_attention", 32, 1, 1_000_000.0, 0.25),
    ),
}
EB = {"max_steps": 5, "t_min": 0.3, "t_max": 0.9, "entropy_bound": 0.2, "stability_threshold": 2}


def model() -> DiffusionGemma:
    """A random network whose rows hold whole blocks of 256 where most of the weights are."""
    return network(**SHAPE)


# --- encoders: as simple as the formats allow, so that their errors are larger than llama.cpp's -----------------------


def q4_k(rows: Floats) -> Bytes:
    """Per 256: fp16 scale of the scales, fp16 scale of the minima, 8 times 6 + 6 bits, 256 codes of 4 bits."""
    blocks = rows.reshape(-1, 8, 32)
    low = np.minimum(blocks.min(-1), 0)
    steps = (blocks.max(-1) - low) / 15
    d, m = (part.max(-1, keepdims=True) / 63 for part in (steps, -low))
    d, m = (np.where(part == 0, 1, part).astype(np.float16) for part in (d, m))
    scales, minima = (np.round(a / b.astype(np.float32)).astype(np.uint8) for a, b in ((steps, d), (-low, m)))
    step, offset = (q * unit.astype(np.float32) for q, unit in ((scales, d), (minima, m)))
    codes = np.round((blocks + offset[..., None]) / np.where(step == 0, 1, step)[..., None]).clip(0, 15)
    pairs = codes.astype(np.uint8).reshape(-1, 4, 2, 32)
    first = scales[:, :4] | (scales[:, 4:] >> 4 << 6)
    second = minima[:, :4] | (minima[:, 4:] >> 4 << 6)
    third = (scales[:, 4:] & 15) | (minima[:, 4:] & 15) << 4
    nibbles = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(-1, 128)
    return np.concatenate([d.view(np.uint8), m.view(np.uint8), first, second, third, nibbles], axis=-1)


def q6_k(rows: Floats) -> Bytes:
    """Per 256: low nibbles, high pairs of bits, 16 scales of 8 bits, fp16 scale of those."""
    blocks = rows.reshape(-1, 16, 16)
    steps = np.abs(blocks).max(-1) / 31
    d = (steps.max(-1, keepdims=True) / 127).astype(np.float16)
    scales = np.round(steps / d.astype(np.float32)).astype(np.int8)
    step = scales * d.astype(np.float32)
    codes = np.round(blocks / np.where(step == 0, 1, step)[..., None]).clip(-32, 31) + 32
    quarters = codes.astype(np.uint8).reshape(-1, 2, 4, 32)
    low = np.concatenate([quarters[:, :, 0:2] & 15 | (quarters[:, :, 2:4] & 15) << 4], axis=-1).reshape(-1, 128)
    high = sum(quarters[:, :, k] >> 4 << 2 * k for k in range(4)).reshape(-1, 64)  # type: ignore[union-attr]
    return np.concatenate([low, high, scales.view(np.uint8), d.view(np.uint8)], axis=-1)


def iq4_nl(rows: Floats) -> Bytes:
    """Per 32: fp16 scale, 32 places in a table of 16 values."""
    blocks = rows.reshape(-1, 32)
    table = np.array(IQ4_NL.kvalues, np.float32)
    d = (np.abs(blocks).max(-1, keepdims=True) / 113).astype(np.float16)
    scaled = blocks / np.where(d == 0, 1, d).astype(np.float32)
    codes = np.abs(scaled[..., None] - table).argmin(-1).astype(np.uint8)
    return np.concatenate([d.view(np.uint8), codes[:, :16] | codes[:, 16:] << 4], axis=-1)


ENCODERS: dict[Kind, Callable[[Floats], Bytes]] = {Kind.Q4_K: q4_k, Kind.Q6_K: q6_k, Kind.IQ4_NL: iq4_nl}


def encoded(weight: Floats, kind: Kind) -> NDArray[Any]:
    """A weight (..., in) in blocks; the last dimension of what comes back is in bytes, but for F32 and F16."""
    if kind not in ENCODERS:
        return quantize(weight, kind)
    return ENCODERS[kind](weight).reshape(*weight.shape[:-1], -1)


# --- mixes of types, as llama.cpp chooses them ------------------------------------------------------------------------


def q8_0(name: str, shape: tuple[int, ...]) -> Kind:
    return Kind.F32 if len(shape) == 1 or "ffn_gate_inp" in name else Kind.Q8_0


def q4_k_m(name: str, shape: tuple[int, ...]) -> Kind:
    if q8_0(name, shape) == Kind.F32:
        return Kind.F32
    if shape[-1] % 256:  # as the 26B's experts, whose down rows have 704
        return Kind.Q5_0
    return Kind.Q6_K if name.startswith(("token_embd", "blk.0.attn_v")) else Kind.Q4_K


def iq4(name: str, shape: tuple[int, ...]) -> Kind:
    return Kind.F32 if q8_0(name, shape) == Kind.F32 else Kind.IQ4_NL


def q4_1(name: str, shape: tuple[int, ...]) -> Kind:
    """Differs from ``q8_0`` in the layers."""
    return Kind.Q4_1 if q8_0(name, shape) == Kind.Q8_0 and name.startswith("blk.") else q8_0(name, shape)


def q4_0(name: str, shape: tuple[int, ...]) -> Kind:
    kind = q4_1(name, shape)
    return Kind.Q4_0 if kind == Kind.Q4_1 else kind


def f16(_name: str, shape: tuple[int, ...]) -> Kind:
    return Kind.F32 if len(shape) == 1 else Kind.F16


Mix = Callable[[str, tuple[int, ...]], Kind]
MIXES: dict[str, Mix] = {"Q8_0": q8_0, "Q4_K_M": q4_k_m, "IQ4_NL": iq4}


# --- files ------------------------------------------------------------------------------------------------------------


def values(config: ModelConfig) -> dict[str, Any]:
    """The keys of a model, as the published files have them."""
    sliding = next(layer for layer in config.layers if layer.is_sliding)
    full = next(layer for layer in config.layers if not layer.is_sliding)
    own = {
        "block_count": len(config.layers),
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": [layer.num_key_value_heads for layer in config.layers],
        "attention.key_length": full.head_dim,
        "attention.key_length_swa": sliding.head_dim,
        "attention.sliding_window": config.sliding_window,
        "attention.sliding_window_pattern": [layer.is_sliding for layer in config.layers],
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "attention.causal": False,
        "expert_count": config.num_experts,
        "expert_used_count": config.top_k_experts,
        "expert_feed_forward_length": config.moe_intermediate_size,
        "rope.freq_base": full.rope_theta,
        "rope.freq_base_swa": sliding.rope_theta,
        "final_logit_softcapping": config.final_logit_softcapping,
    }
    said = {f"{ARCHITECTURE}.{name}": value for name, value in own.items()}
    said |= {f"diffusion.eb_{name}": value for name, value in EB.items()}
    return {"general.name": "Tiny model", "diffusion.canvas_length": config.canvas_length, **said}


def tokenizer_values(folder: Path, model: str = "gemma4") -> dict[str, Any]:
    """A folder's tokenizer and template, as llama.cpp's converter writes them."""
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    ids: dict[str, int] = {**raw["model"]["vocab"], **{each["content"]: each["id"] for each in raw["added_tokens"]}}
    tokens = sorted(ids, key=ids.__getitem__)
    special = {each["content"] for each in raw["added_tokens"] if each["special"]}
    added = {each["content"] for each in raw["added_tokens"]}

    def kind(token: str) -> int:
        if token.startswith("<0x"):
            return int(TokenType.BYTE)
        plain = TokenType.USER_DEFINED if token in added else TokenType.NORMAL
        return int(TokenType.CONTROL if token in special else plain)

    merges = [" ".join(merge) for merge in raw["model"]["merges"]]
    named = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "unknown": "unk_token"}
    return {
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [kind(token) for token in tokens],
        "tokenizer.ggml.add_space_prefix": False,
        **({"tokenizer.ggml.merges": merges} if merges else {}),
        **{f"tokenizer.ggml.{key}_token_id": ids[settings[name]] for key, name in named.items() if name in settings},
        "tokenizer.chat_template": (folder / "chat_template.jinja").read_text(encoding="utf-8"),
    }


def weights(made: DiffusionGemma, mix: Mix) -> dict[str, tuple[NDArray[Any], Kind]]:
    """The tensors of a network in blocks, by their names in the file, and the rotation of its full layers."""
    found: dict[str, tuple[NDArray[Any], Kind]] = {}
    for path, parameter in made.named_parameters():
        name, kind = tensor_name(path), mix(tensor_name(path), tuple(parameter.shape))
        found[name] = encoded(plain(parameter), kind), kind
    full = next(layer for layer in made.config.layers if not layer.is_sliding)
    turned = int(full.head_dim / 2 * full.partial_rotary_factor)
    found[ROPE] = np.array([1.0] * turned + [1e30] * (full.head_dim // 2 - turned), np.float32), Kind.F32
    return found


def plain(parameter: Tensor) -> Floats:
    found: Floats = parameter.detach().float().numpy()
    return found


def write(
    path: Path,
    said: Mapping[str, Any],
    tensors: Mapping[str, tuple[NDArray[Any], Kind]],
    architecture: str = ARCHITECTURE,
    most_tensors: int = 0,
) -> Path:
    """Write a file, or several of ``most_tensors`` each; keys whose value is None are left out."""
    writer = GGUFWriter(path, architecture, split_max_tensors=most_tensors)
    for key, value in said.items():
        match value:
            case None:
                continue
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)
    for name, (blocks, kind) in tensors.items():
        writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny(path: Path, tokenizer: Path, mix: Mix = q8_0, **changes: Any) -> Path:
    """A whole file of ``model()``; ``changes`` are keys with underscores for dots."""
    made = model()
    return write(path, values(made.config) | tokenizer_values(tokenizer) | changes, weights(made, mix))


def small(
    path: Path, tokenizer: Path, architecture: str, mix: Mix = q8_0, most_tensors: int = 0, inner: int = 128
) -> Path:
    """A whole file of a dense causal model, ``llama`` or ``gemma3``, of random numbers."""
    draws = np.random.default_rng(0)
    said = tokenizer_values(tokenizer)
    width, heads = 64, 2
    own = {
        "block_count": 2,
        "context_length": 512,
        "embedding_length": width,
        "feed_forward_length": inner,
        "attention.head_count": heads,
        "attention.head_count_kv": 1,
        "attention.key_length": width // heads,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": 16,
        "rope.freq_base": 10_000.0,
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 8.0,
    }
    norms = ["attn_norm", "ffn_norm"]
    shapes = {"attn_q": (width, width), "attn_k": (32, width), "attn_v": (32, width), "attn_output": (width, width)}
    shapes |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    if architecture == "gemma3":
        norms += ["post_attention_norm", "post_ffw_norm"]
        shapes |= {"attn_q_norm": (32,), "attn_k_norm": (32,)}
    layer = {f"{name}.weight": shape for name, shape in {**shapes, **dict.fromkeys(norms, (width,))}.items()}
    whole = {"token_embd.weight": (len(said["tokenizer.ggml.tokens"]), width), "output_norm.weight": (width,)}
    whole |= {f"blk.{index}.{name}": shape for index in range(2) for name, shape in layer.items()}
    kinds = {name: mix(name, shape) for name, shape in whole.items()}
    tensors = {
        name: (encoded(draws.standard_normal(shape, np.float32), kinds[name]), kinds[name])
        for name, shape in whole.items()
    }
    said |= {f"{architecture}.{name}": value for name, value in own.items()}
    return write(path, said, tensors, architecture, most_tensors)
