"""Random tiny causal models in transformers, our reference implementation, and their checkpoints on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    Gemma3Config,
    Gemma3ForCausalLM,
    Gemma3ForConditionalGeneration,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MinistralConfig,
    MinistralForCausalLM,
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)
from transformers.utils import logging

from engine.files import read_json, write_json, write_text
from engine.models.causal.network import CausalNetwork
from tests.engine.small import write_tokenizer

logging.disable_progress_bar()  # the bar of save_pretrained leaves a thread behind

VOCABULARY = 131
TOLERANCE = 2e-4
CLASSES: dict[str, tuple[Any, Any]] = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM),
    "ministral3": (Ministral3Config, Ministral3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "ministral": (MinistralConfig, MinistralForCausalLM),
    "gemma3_text": (Gemma3TextConfig, Gemma3ForCausalLM),
}
TOWERS: dict[str, Any] = {  # of models that see, as small as they can be
    "gemma3": {"model_type": "siglip_vision_model"},
    "mistral3": {"model_type": "pixtral"},
}
TOWER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 14}
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
    }
    if kind in ("qwen2", "qwen3"):
        settings["layer_types"] = ["full_attention"] * 3
    if kind in ("qwen2", "smollm3"):
        settings.pop("head_dim")
    if kind == "gemma3_text":
        settings.pop("rope_parameters")  # of each kind of layers
    config, model = CLASSES[kind]
    return randomised(model(config(**settings | changes)), seed)


def build_seeing(kind: str, text: PreTrainedModel, **changes: Any) -> PreTrainedModel:
    """A model that sees, whose text is ``text``."""
    settings = {"text_config": text.config.to_dict(), "vision_config": {**TOWER, "image_size": 28, **TOWERS[kind]}}
    if kind == "gemma3":
        made = randomised(Gemma3ForConditionalGeneration(Gemma3Config(**settings, mm_tokens_per_image=4, **changes)))
    else:
        made = randomised(Mistral3ForConditionalGeneration(Mistral3Config(**settings, **changes)))
    made.model.language_model.load_state_dict(text.model.state_dict())
    made.lm_head.load_state_dict(text.lm_head.state_dict())
    return made


def randomised(made: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """All its weights drawn; those that norms multiply by lie around 1, or around 0 where the norm adds one."""
    made.eval()
    zero = "gemma3" in made.config.model_type
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in made.named_parameters():
            if tensor.dim() > 1:
                tensor.normal_(std=tensor.shape[-1] ** -0.5, generator=draws)
            else:
                tensor.normal_(mean=0.0 if zero or name.endswith("bias") else 1.0, std=0.3, generator=draws)
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


def check_passes(ours: CausalNetwork, logits: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """See that every pass is that of another network, by the logits of its rows, their positions, and a mask.

    Text in pieces, rows out of order as causal parallel decoding reads them, and a block that sees all of itself.
    """
    ids = torch.randint(VOCABULARY, (60,), generator=torch.Generator().manual_seed(1))
    places = torch.arange(60)
    causal = torch.ones(60, 60, dtype=torch.bool).tril()
    cache = ours.new_cache()
    ours.prefill(ids[:20], cache)
    found = [ours.decode(ids[20:31], cache, 11), ours.decode(ids[31:60], cache, 0, first_logits=2)]
    expected = logits(ids, places, causal)
    assert cache.length == 31
    torch.testing.assert_close(torch.cat(found), torch.cat([expected[20:31], expected[33:]]), atol=TOLERANCE, rtol=0)

    order = torch.tensor([33, 31, 36, 32, 34])
    moved = ours.decode(ids[order], cache, 0, positions=order)
    rows = torch.cat([places[:31], order])
    expected = logits(ids[rows], rows, causal[:36, :36])
    torch.testing.assert_close(moved, expected[31:], atol=TOLERANCE, rtol=0)

    block = ours.decode(ids[31:40], cache, 0, is_causal=False)
    sees_all = causal[:40, :40].clone()
    sees_all[31:] = True
    torch.testing.assert_close(block, logits(ids[:40], places[:40], sees_all)[31:], atol=TOLERANCE, rtol=0)
