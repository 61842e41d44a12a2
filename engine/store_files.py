"""The names of a packed store's files, finished and unfinished. Needs no torch, so that the models page can use it."""

from __future__ import annotations

import re

MANIFEST = "safelight-store.json"
PARTIAL = "safelight-store.partial.json"
COMPANIONS = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja", "vocab.json", "merges.txt",
)  # fmt: skip
DRAFT_FOLDER = "linear_spec_lora"  # in the folder of a checkpoint or a store: the adapter with which the model drafts
DRAFT_FILES = ("adapter_config.json", "adapter_model.safetensors")
_SHARD = r"rest\.safetensors|layer-[0-9]+\.safetensors"
_WRITTEN = rf"{re.escape(MANIFEST)}|{re.escape(PARTIAL)}|{'|'.join(map(re.escape, COMPANIONS))}|{_SHARD}"
UNFINISHED = re.compile(rf"\.({_WRITTEN})\.[0-9a-f]{{8}}\.part|\.tmp[A-Za-z0-9]{{6}}")
"""Files left by a killed conversion: our temporary ones, and those of the library that writes shards."""

_OLDER = re.compile(rf"({_SHARD}|{re.escape(PARTIAL)})\.tmp")  # versions before 2026-11 left these


def is_of_a_conversion(name: str) -> bool:
    """Returns True if a file of that name, in the folder of an unfinished conversion, belongs to the conversion."""
    known = name == PARTIAL or name in COMPANIONS or re.fullmatch(_SHARD, name)
    return bool(known or UNFINISHED.fullmatch(name) or _OLDER.fullmatch(name))
