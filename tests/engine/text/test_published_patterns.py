"""The patterns that are run: as they were published, and linear in the worst texts there are for them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from transformers.integrations.gguf import gguf_tokenizer_mapping
from transformers.models.qwen2 import tokenization_qwen2
from transformers.models.qwen3_5 import tokenization_qwen3_5

from engine.text.published_patterns import GPT2, LLAMA3, O200K, PUBLISHED, QWEN2, QWEN3_5, TEKKEN
from engine.text.token_bytes import BYTE_LEVEL
from engine.text.tokenizer import Tokenizer

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
SPLITS: dict[str, list[dict[str, Any]]] = {
    **{known.name: [known.split, BYTES] for known in PUBLISHED},
    "built in": [BYTES | {"use_regex": True}],
    "SmolLM2": [{"type": "Digits", "individual_digits": True}, BYTES | {"use_regex": True}],
}
WORST = (
    " ", "a", "A", "1", "\n", "\r\n", "\u0301", "'", "'s", "!", "!A", " \n", "Aa", "字", "A\u0301", "  1",
    "\u0315\u0300",
)  # fmt: skip
SIZE = 2**12  # characters, and four times as many; the tests on real vocabularies take megabytes


def test_they_are_what_transformers_has() -> None:
    assert QWEN2.pattern == tokenization_qwen2.PRETOKENIZE_REGEX
    assert QWEN3_5.pattern == tokenization_qwen3_5.PRETOKENIZE_REGEX
    splits = gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    assert (LLAMA3.pattern, TEKKEN.pattern) == (splits["llama-bpe"], splits["tekken"])
    assert O200K.pattern == splits["gpt-4o"]


def tokenizer(folder: Path, steps: list[dict[str, Any]]) -> Tokenizer:
    """Bytes, with merges that make long tokens of what is repeated."""
    vocabulary = dict(BYTE_LEVEL)
    merges = []
    for unit in (" ", "a", "A", "1", "!", "\n"):
        letter = next(letter for letter, byte in BYTE_LEVEL.items() if byte == ord(unit))
        for size in (1, 2, 4, 8, 16, 32):
            merges.append([letter * size] * 2)
            vocabulary[letter * size * 2] = len(vocabulary)
    raw = {
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": BYTES,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    return Tokenizer.from_folder(folder)


@pytest.mark.parametrize("name", SPLITS)
def test_time_grows_with_the_text(name: str, tmp_path: Path) -> None:
    made = tokenizer(tmp_path, SPLITS[name])

    def seconds(text: str) -> float:
        started = time.process_time()
        made.encode(text)
        return time.process_time() - started

    for unit in WORST:
        text = unit * (SIZE // len(unit))
        ratio, tries = 99.0, 0
        while ratio > 9 and tries < 5:  # a busy machine may be slow once
            ratio, tries = seconds(text * 4 + "x") / seconds(text + "x"), tries + 1
        assert ratio < 9, (name, unit)  # four times the text; 16 were quadratic


def test_gpt2s_is_the_one_that_is_built_in(tmp_path: Path) -> None:
    explicit, built_in = (tokenizer(tmp_path, SPLITS[name]) for name in (GPT2.name, "built in"))
    text = "We'll  see 1234\r\n\n  it's!?  \t'S x\u00a0 é\u0301 字1 "
    splits = [made.fast.pre_tokenizer.pre_tokenize_str(text) for made in (explicit, built_in)]
    assert splits[0] == splits[1]
