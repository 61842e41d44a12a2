"""Small random causal models whose vocabulary is bytes, and tokens such as models have that fill gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engine.text.token_bytes import BYTE_LEVEL
from engine.text.tokenizer import Tokenizer
from tests.engine.published import Qwen

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def tokenizer_json(tokens: Sequence[str], *, special: bool = True) -> bytes:
    """A tokenizer whose first 256 tokens are bytes; ``tokens`` follow."""
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    raw = {
        "pre_tokenizer": BYTES,
        "decoder": BYTES,
        "added_tokens": [{"id": 256 + place, "content": token, **plain} for place, token in enumerate(tokens)],
        "model": {"type": "BPE", "vocab": dict(BYTE_LEVEL), "merges": []},
    }
    return json.dumps(raw).encode()


def with_added(tokens: Sequence[str], *, special: bool = True) -> Tokenizer:
    """The tokenizer of ``tokenizer_json``."""
    return Tokenizer.from_bytes(tokenizer_json(tokens, special=special), "tokenizer.json")


def causal_folder(folder: Path, tokens: Sequence[str], seed: int = 0, **changes: Any) -> Path:
    """Writes a random model of Qwen2's shape whose end token is the first of ``tokens``."""
    size = 256 + len(tokens)
    shape = Qwen(hidden=32, width=48, layers=2, heads=4, keys=2, vocabulary=size, head=8, has_biases=True)
    draws = torch.Generator().manual_seed(seed)
    weights = {
        name: torch.ones(wanted) if "norm" in name else torch.randn(wanted, generator=draws) * 2.0 * wanted[-1] ** -0.5
        for name, wanted in shape.tensors().items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    config = {
        "model_type": "qwen2", "vocab_size": size, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "rope_theta": 10_000.0, "tie_word_embeddings": False, "eos_token_id": 256,
        "pad_token_id": 256,
    } | changes  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_bytes(tokenizer_json(tokens))
    return folder
