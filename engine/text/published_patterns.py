"""The regular expressions with which published tokenizers split a text, for files that only name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
