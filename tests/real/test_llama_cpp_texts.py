"""The texts that llama.cpp publishes with its vocabularies have the ids that it publishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.text.gguf_tokenizer import tokenizer_files
from engine.text.tokenizer import Tokenizer
from engine.weights.gguf.header import GGUFHeader
from tests.real import packages

pytestmark = pytest.mark.real


def cases(path: Path) -> list[tuple[str, list[int]]]:
    """The texts that come with a vocabulary, and the ids of each."""
    texts = path.with_name(f"{path.name}.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    ids = path.with_name(f"{path.name}.out").read_text(encoding="utf-8").split("\n")
    return [(text, [int(one) for one in line.split()]) for text, line in zip(texts, ids, strict=False)]


@pytest.mark.parametrize(
    ("name", "count"),
    [("llama-spm", 47), ("phi-3", 47), ("gpt-2", 47), ("qwen2", 47), ("llama-bpe", 47), ("gemma-4", 46)],
)
def test_ids_are_those_of_llama_cpp(name: str, count: int, tmp_path: Path) -> None:
    path = packages.llama_cpp() / f"ggml-vocab-{name}.gguf"
    for file, data in tokenizer_files(GGUFHeader.read(path).values).items():
        (tmp_path / file).write_bytes(data)
    tokenizer = Tokenizer.from_folder(tmp_path)
    found = cases(path)
    assert len(found) == count
    wrong = [(text, tokenizer.encode(text), ids) for text, ids in found if tokenizer.encode(text) != ids]
    assert wrong == []
    inert = [text for text, ids in found if tokenizer.encode_inert(text) != ids]
    assert inert == [text for text, _ in found if any(map(tokenizer.is_control, tokenizer.encode(text)))]
