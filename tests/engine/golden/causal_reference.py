"""Random tiny causal models in transformers, our reference implementation, and their checkpoints on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    Ministral3Config,
    Ministral3ForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.utils import logging

from engine.files import read_json, write_json, write_text
from engine.training.data.corpus import write_tokenizer

logging.disable_progress_bar()  # the bar of save_pretrained leaves a thread behind

VOCABULARY = 131
CLASSES: dict[str, tuple[Any, Any]] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "ministral3": (Ministral3Config, Ministral3ForCausalLM),
}
YARN = {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0, "original_max_position_embeddings": 16}
TEMPLATE = """\
{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}
{%- set ns = namespace(last=0) %}
{%- for message in messages[::-1] %}
    {%- if message.role == "user" and ns.last == 0 %}{%- set ns.last = messages|length - 1 - loop.index0 %}{%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}
        {{- '<|im_start|>' + message.role + '\\n' + content.strip('\\n') }}
        {%- for call in message.tool_calls or [] %}{{- call.function.arguments | tojson }}{%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""  # what Qwen3's does with messages, in its manner


def build(kind: str, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model all of whose weights are random."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 44,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
        "layer_types": None if kind == "ministral3" else ["full_attention"] * 3,
    }
    if kind != "qwen3":
        settings.pop("head_dim" if kind == "qwen2" else "layer_types")
    config, model = CLASSES[kind]
    made: PreTrainedModel = model(config(**settings | changes)).eval()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in made.named_parameters():
            if tensor.dim() > 1:
                tensor.normal_(std=tensor.shape[-1] ** -0.5, generator=draws)
            else:
                tensor.normal_(mean=0.0 if name.endswith("bias") else 1.0, std=0.3, generator=draws)
    return made


def save(model: PreTrainedModel, folder: Path, model_type: str, **raw: Any) -> Path:
    """Write a checkpoint as transformers does, as the family publishes it; ``raw`` changes its config.json.

    With a tokenizer, and a chat template in the manner of Qwen3's.
    """
    model.save_pretrained(folder)
    write_json(folder / "config.json", {**read_json(folder / "config.json"), "model_type": model_type, **raw})
    if model_type == "nemotron_labs_diffusion":
        tensors = load_file(folder / "model.safetensors")
        save_file({published(name): tensor for name, tensor in tensors.items()}, folder / "model.safetensors")
    write_tokenizer(folder)
    (folder / "chat_template.jinja").unlink()
    write_text(folder / "chat_template.jinja", TEMPLATE)
    return folder


def published(name: str) -> str:
    """Nemotron's name of one of Ministral's tensors."""
    return "diffusion_head.weight" if name == "lm_head.weight" else name.replace("model.", "encoder.", 1)


@torch.no_grad()
def logits_of(model: PreTrainedModel, ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
    """Logits (T, V) of rows (T,), under a mask (T, T), True where allowed."""
    bias = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    found: Tensor = model(input_ids=ids[None], position_ids=positions[None], attention_mask=bias[None, None]).logits[0]
    return found
