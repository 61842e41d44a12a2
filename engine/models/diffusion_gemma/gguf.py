"""DiffusionGemma as llama.cpp's converter writes it: the keys, and the names of the tensors.

Norms, scalars, projections and experts are stored as released: gate and up in one, gate first. There is no output head,
as it is the token table's, and full layers have no projection for values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from engine.config import MAX_HEAD_DIM, MAX_LAYERS, GenerationConfig, LayerConfig, ModelConfig
from engine.declared import check_whole
from engine.errors import SafelightError, quoted
from engine.models.diffusion_gemma.config import config_dict, generation_dict
from engine.models.gguf_description import ROPE, TABLE, GGUFDescription, GGUFKeys, table_shape
from engine.weights.gguf.checkpoint import GGUFCheckpoint
from engine.weights.gguf.header import GGUFHeader
from engine.weights.layout import Names

ARCHITECTURE = "diffusion-gemma"
ENDS = ("<eos>", "<turn|>", "<|tool_response>")  # end the released model's turns; the file may name only one
TURNED = 0.25  # the share of a full head that RoPE rotates in the released model, if the file has no ``ROPE``

EB_KEYS = {  # of the sampler: our names, and theirs after ``diffusion.eb_``
    "max_denoising_steps": "max_steps",
    "t_min": "t_min",
    "t_max": "t_max",
    "entropy_bound": "entropy_bound",
    "stability_threshold": "stability_threshold",
    "confidence_threshold": "confidence_threshold",
}
_NAMES = {
    "embed_tokens.weight": TABLE,
    "norm.weight": "output_norm.weight",
    "self_conditioning.pre_norm.weight": "self_cond_pre_norm.weight",
    "self_conditioning.gate_proj.weight": "self_cond_gate.weight",
    "self_conditioning.up_proj.weight": "self_cond_up.weight",
    "self_conditioning.down_proj.weight": "self_cond_down.weight",
    "layer_scalar": "layer_output_scale.weight",
    "causal_layer_scalar": "enc_layer_output_scale.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
    "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight",
    "router.proj.weight": "ffn_gate_inp.weight",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
    "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}
_LAYER = re.compile(r"layers\.(\d+)\.(.+)")


def tensor_name(parameter: str) -> str:
    """Returns the file's name of one of our parameters."""
    match = _LAYER.fullmatch(parameter)
    return f"blk.{match[1]}.{_NAMES[match[2]]}" if match else _NAMES[parameter]


NAMES = Names(tensor_name, (ROPE,))


def describe(header: GGUFHeader, token_id: Callable[[str], int | None]) -> GGUFDescription:
    """Describes a file; see ``gguf_description.Describe``."""
    ends = {text: token for text in ENDS if (token := token_id(text)) is not None}
    defaults = read_generation(header.values, ends)
    config = read_config(header, _divisors(header))
    notes = ("text only: images need the original checkpoint",)
    generation = generation_dict(defaults, list(defaults.eos_token_ids))
    return GGUFDescription(config_dict(config), generation, NAMES, notes=notes)


def _divisors(header: GGUFHeader) -> list[float] | None:
    """Reads ``ROPE``: 1 for each pair of full layers that rotates, 1e30 for the others."""
    tensor = header.tensors.get(ROPE)
    if tensor is None:
        return None
    if len(tensor.shape) != 1 or tensor.shape[0] > MAX_HEAD_DIM:
        raise SafelightError(f"has {ROPE} of shape {tensor.shape}")
    return GGUFCheckpoint(header).read(ROPE).tolist()


def read_config(header: GGUFHeader, divisors: list[float] | None) -> ModelConfig:
    """Returns the shape of the model.

    Args:
        divisors: the content of ``ROPE``.

    Raises:
        SafelightError: a key is missing, or has a value that this engine does not implement; the message follows the
            file's name.
    """
    values: Mapping[str, Any] = header.values
    need, (vocabulary, width) = GGUFKeys(header, ARCHITECTURE).need, table_shape(header)

    def each(name: str) -> list[Any]:
        """Returns a value for each layer; the file writes it once if it is the same for all."""
        listed = values.get(f"{ARCHITECTURE}.{name}")
        if not isinstance(listed, list):
            return [need(name)] * count
        if len(listed) != count:
            raise SafelightError(f"has {len(listed)} values of {ARCHITECTURE}.{name} for {count} layers")
        return listed

    count = need("block_count")
    check_whole(f"{ARCHITECTURE}.block_count", count, 1, MAX_LAYERS)
    is_sliding, heads = each("attention.sliding_window_pattern"), each("attention.head_count_kv")
    if not all(isinstance(flag, bool) for flag in is_sliding):
        raise SafelightError(f"has {ARCHITECTURE}.attention.sliding_window_pattern {quoted(is_sliding)}")
    if values.get(f"{ARCHITECTURE}.attention.causal", False):
        raise SafelightError("is for a causal model, which does not denoise")
    if (hidden := need("embedding_length")) != width:
        table = (vocabulary, width)
        raise SafelightError(f"has a token table of shape {table} for an embedding length of {quoted(hidden)}")

    def layer(kv_heads: Any, *, sliding: bool) -> LayerConfig:
        suffix = "_swa" if sliding else ""
        size = need(f"attention.key_length{suffix}")
        turned = 1.0 if sliding else TURNED if divisors is None else _turned(divisors, size)
        kind = "sliding_attention" if sliding else "full_attention"
        return LayerConfig(kind, size, kv_heads, need(f"rope.freq_base{suffix}"), turned)  # type: ignore[arg-type]

    layers = tuple(layer(h, sliding=flag) for h, flag in zip(heads, is_sliding, strict=True))
    if sorted(kind.is_sliding for kind in set(layers)) != [False, True]:
        raise SafelightError("does not have one sort of sliding and one sort of full layers, as DiffusionGemma has")
    return ModelConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=need("feed_forward_length"),
        num_attention_heads=need("attention.head_count"),
        layers=layers,
        sliding_window=need("attention.sliding_window"),
        num_experts=need("expert_count"),
        top_k_experts=need("expert_used_count"),
        moe_intermediate_size=need("expert_feed_forward_length"),
        canvas_length=values.get("diffusion.canvas_length", 256),
        max_position_embeddings=need("context_length"),
        rms_norm_eps=need("attention.layer_norm_rms_epsilon"),
        final_logit_softcapping=need("final_logit_softcapping"),
        bos_token_id=values.get("tokenizer.ggml.bos_token_id", 2),
        pad_token_id=values.get("tokenizer.ggml.padding_token_id", 0),
    )


def _turned(divisors: list[float], head_dim: Any) -> float:
    """Returns the share of a head that RoPE rotates."""
    count = sum(divisor == 1.0 for divisor in divisors)
    is_known = all(a <= b for a, b in pairwise(divisors)) and all(d == 1.0 or d >= 1e9 for d in divisors)
    if not is_known or not count or 2 * len(divisors) != head_dim:
        raise SafelightError(f"has {ROPE} of another kind than DiffusionGemma's")
    return count / len(divisors)


def read_generation(values: Mapping[str, Any], tokens: Mapping[str, int]) -> GenerationConfig:
    """Returns the sampler's defaults; the released model's where the file has none.

    Args:
        values: of the file's header.
        tokens: ids of the tokens by their text.

    Raises:
        SafelightError: a value is none.
    """
    said = {ours: values.get(f"diffusion.eb_{theirs}") for ours, theirs in EB_KEYS.items()}
    ends = [values.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    ends += [tokens.get(name) for name in ENDS]
    return GenerationConfig().replace(
        **{name: value for name, value in said.items() if value is not None},
        eos_token_ids=tuple(dict.fromkeys(end for end in ends if isinstance(end, int))),
        pad_token_id=values.get("tokenizer.ggml.padding_token_id", 0),
    )
