"""Reads the ``config.json`` of networks that ZHZisZZ/dllm turned from autoregression to diffusion. Knows no tensors.

Each is a Qwen3, a Qwen2 or a Llama. Its files do not say whether it was trained on whole texts (MDLM) or on blocks
(BD3-LM). Such blocks begin behind the prompt. Its mask is a token that was added behind those of the tokenizer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.models.causal.config import CausalConfig
from engine.models.llama.config import read_llama
from engine.models.qwen.config import read_qwen2, read_qwen3

QWEN3_MASK, QWEN2_MASK = 151669, 151665  # if neither config.json nor the tokenizer has it
_OF_DLLM: dict[str, Any] = {"blocks_follow_prompt": True, "reads_whole": True, "mask_schedule": "round"}


def read_a2d_qwen3(raw: dict[str, Any]) -> CausalConfig:
    return replace(read_qwen3(raw, mask=QWEN3_MASK), **_OF_DLLM)


def read_a2d_qwen2(raw: dict[str, Any]) -> CausalConfig:
    return replace(read_qwen2(raw, mask=QWEN2_MASK), **_OF_DLLM)


def read_a2d_llama(raw: dict[str, Any]) -> CausalConfig:
    read = read_llama(raw)  # with the mask of its config.json or tokenizer
    return replace(read, **_OF_DLLM)
