"""The regular expressions with which published tokenizers split a text, for files that only name them.

And the content of ``tokenizer.json`` made of the files that Dream has in its place, ``vocab.json`` and ``merges.txt``.
Its rules, Qwen2's, are those of ``tokenization_dream.py``, which is not run. Its added tokens are in
``tokenizer_config.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import SafelightError
from engine.files import read_bytes


@dataclass(frozen=True)
class PublishedPattern:
    """A regular expression that matches the pieces of a text."""

    name: str
    pattern: str
    source: str  # where it was published

    @property
    def split(self) -> dict[str, Any]:
        """The step of a ``tokenizer.json`` that splits by it."""
        return {"type": "Split", "pattern": {"Regex": self.pattern}, "behavior": "Isolated", "invert": False}


QWEN2 = PublishedPattern(
    "Qwen2",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "PAT_STR of tokenization_qwen.py in Qwen/Qwen-7B; models/qwen2/tokenization_qwen2.py in transformers. Qwen2, "
    "Qwen2.5 and Qwen3 have it, and what was trained from them: WeDLM, SDAR",
)
QWEN3_5 = PublishedPattern(
    "Qwen3.5",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "models/qwen3_5/tokenization_qwen3_5.py in transformers",
)
LLAMA3 = PublishedPattern(
    "Llama 3",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "pat_str of llama/tokenizer.py in meta-llama/llama3. SmolLM3 has it, and files of Mistral that were converted with "
    "it in place of tekken's: transformers warns of those and runs them as they are, unless fix_mistral_regex is set",
)
TEKKEN = PublishedPattern(
    "tekken",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "config.pattern of data/tekken_240718.json and tekken_240911.json in mistralai/mistral-common. Ministral and "
    "Nemotron-Labs-Diffusion have it",
)
O200K = PublishedPattern(
    "o200k",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k_base of tiktoken_ext/openai_public.py in openai/tiktoken",
)
LING = PublishedPattern(
    "Ling",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "tokenizer.json of inclusionAI/Ling-lite and Ling-mini-2.0, as src/llama-vocab.cpp in ggml-org/llama.cpp quotes it "
    "for bailingmoe, bailingmoe2 and llada-moe. LLaDA and LLaDA2 have the vocabularies of these two",
)


FILE_BYTES = 2**26  # of a tokenizer.json, or of one of these; Gemma's has 33 MB
CLASSES = ("DreamTokenizer", "Qwen2Tokenizer")  # values of ``tokenizer_class``
FILES = ("vocab.json", "merges.txt")
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_FACTS = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}


def stands_in(folder: Path, settings: Mapping[str, Any]) -> bool:
    """True if a folder without ``tokenizer.json`` has these files, and its settings a class that has these rules."""
    has_class = settings.get("tokenizer_class") in CLASSES
    return has_class and not (folder / "tokenizer.json").exists() and all((folder / name).exists() for name in FILES)


def joined(folder: Path, settings: Mapping[str, Any]) -> bytes:
    """Returns the content of a ``tokenizer.json``; ``settings`` are those of ``tokenizer_config.json``.

    Raises:
        SafelightError: a file cannot be read.
    """
    try:
        vocabulary, lines = (read_bytes(folder / name, FILE_BYTES) for name in FILES)
        merges = [line for line in lines.decode().splitlines() if line and not line.startswith("#version")]
    except (OSError, UnicodeDecodeError) as error:
        raise SafelightError(f"{folder / FILES[0]} or {FILES[1]} cannot be read: {error}") from error
    known = settings.get("added_tokens_decoder")
    added = [
        {"id": int(number), "content": entry["content"]}
        | {name: entry.get(name) is True if name in entry else default for name, default in _FACTS.items()}
        for number, entry in (known.items() if isinstance(known, dict) else ())
        if number.isdecimal() and len(number) < 10 and isinstance(entry, dict) and isinstance(entry.get("content"), str)
    ]
    outline = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [QWEN2.split, _BYTES]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    }
    head = json.dumps(outline)[:-1] + ', "model": {"type": "BPE", "vocab": '
    return b"".join((head.encode(), vocabulary.strip(), b', "merges": ', json.dumps(merges).encode(), b"}}"))
