"""The embedded models' tokenizer: one token a character, and the turn markers. Knows no model."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>system", "<|turn>user", "<|turn>model", "<turn|>")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127))) + "·•°±×÷«»¿¡éèàäöüßñçøåπ→"

CHAT_TEMPLATE = (
    "{#- This small model was trained on single questions: it reads the last one. -#}"
    "{{ bos_token }}<|turn>user\n{{ messages[-1]['content'] }}<turn|>\n"
    "{%- if add_generation_prompt %}{{ '\n' }}<|turn>model\n{% endif %}"
)


def build_tokenizer() -> Tokenizer:
    """128 tokens: 9 special ones, then the characters."""
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *CHARACTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def write_tokenizer(folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja as released checkpoints lay them out."""
    build_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # transformers would otherwise take it for Gemma's
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE + "\n")
