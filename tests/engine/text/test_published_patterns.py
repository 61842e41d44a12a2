"""The patterns of files that only name them are as they were published."""

from __future__ import annotations

from transformers.integrations.gguf import gguf_tokenizer_mapping
from transformers.models.qwen2 import tokenization_qwen2
from transformers.models.qwen3_5 import tokenization_qwen3_5

from engine.text.vocabulary_files import LLAMA3, O200K, QWEN2, QWEN3_5, TEKKEN


def test_they_are_what_transformers_has() -> None:
    assert QWEN2.pattern == tokenization_qwen2.PRETOKENIZE_REGEX
    assert QWEN3_5.pattern == tokenization_qwen3_5.PRETOKENIZE_REGEX
    splits = gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    assert (LLAMA3.pattern, TEKKEN.pattern) == (splits["llama-bpe"], splits["tekken"])
    assert O200K.pattern == splits["gpt-4o"]
