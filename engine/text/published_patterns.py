"""The regular expressions with which published tokenizers split a text; no others are run.

A tokenizer's file may hold any expression, and one that backtracks takes hours. Each of these takes time that is linear
in the text, which ``tests/engine/text/test_published_patterns.py`` measures. They are written as they were published,
byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import SafelightError, quoted


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
GPT2 = PublishedPattern(
    "GPT-2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "src/encoder.py in openai/gpt-2. The tokenizers library has it built in, as ByteLevel with use_regex",
)
LING = PublishedPattern(
    "Ling",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "tokenizer.json of inclusionAI/Ling-lite and Ling-mini-2.0, as src/llama-vocab.cpp in ggml-org/llama.cpp quotes it "
    "for bailingmoe, bailingmoe2 and llada-moe. LLaDA and LLaDA2 have the vocabularies of these two",
)
PUBLISHED = (QWEN2, QWEN3_5, LLAMA3, TEKKEN, O200K, GPT2, LING)

_STEPS = tuple(known.split for known in PUBLISHED)


def require_published(step: Mapping[str, Any]) -> None:
    """Checks that a step with a regular expression in a ``tokenizer.json`` is a published one.

    Raises:
        SafelightError: its expression is another one, or used differently; the message follows the file's name.
    """
    if step in _STEPS:
        return
    pattern = step["pattern"]["Regex"]
    names = ", ".join(known.name for known in PUBLISHED)
    if step["type"] == "Split" and any(pattern == known.pattern for known in PUBLISHED):
        raise SafelightError(
            f"splits by a known pattern, but with behavior {quoted(step.get('behavior'))} and invert "
            f"{quoted(step.get('invert'))}, which this engine does not run; download the original model's file"
        )
    raise SafelightError(
        f"has the regular expression {quoted(pattern, 120)} ({step['type']}), and only those of published tokenizers "
        f"are run ({names}); choose a model that has one of them"
    )
