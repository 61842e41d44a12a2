"""Dream's older tokenizer files stand in for a ``tokenizer.json``: the same ids as the library has for that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as FastTokenizer
from transformers.integrations.gguf import gguf_tokenizer_mapping
from transformers.models.qwen2 import tokenization_qwen2
from transformers.models.qwen3_5 import tokenization_qwen3_5

from engine import SafelightError
from engine.files import write_json
from engine.fingerprint import fingerprint
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary_files import LLAMA3, O200K, QWEN2, QWEN3_5, TEKKEN

TEXTS = [
    "Sort 9 4 7, then don't.",
    "e\u0301t\u00e9 na\u00efve \u6f22\u5b57\n\n  x\t1234",
    "<|mask|>the end<|endoftext|>",
    "",
]
ENDS = ("<|endoftext|>", "<|mask|>")


def trained() -> FastTokenizer:
    """A small byte-level tokenizer with Qwen2's rules."""
    made = FastTokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(QWEN2.pattern), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS * 9, trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, show_progress=False)
    )
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in ENDS])
    return made


def write(folder: Path, made: FastTokenizer) -> None:
    model = json.loads(made.to_str())["model"]
    write_json(folder / "vocab.json", model["vocab"])
    merges = [" ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    added = {str(made.token_to_id(token)): {"content": token, "special": True} for token in ENDS}
    settings = {"tokenizer_class": "DreamTokenizer", "added_tokens_decoder": added}
    write_json(folder / "tokenizer_config.json", settings)


def test_they_are_read_as_the_library_reads_the_whole(tmp_path: Path) -> None:
    theirs = trained()
    write(tmp_path, theirs)
    ours = Tokenizer.from_folder(tmp_path)
    assert len(json.loads(theirs.to_str())["model"]["merges"]) > 20
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids
    assert ours.token_id("<|mask|>") == theirs.token_to_id("<|mask|>")
    assert ours.decode(ours.encode(TEXTS[0])) == TEXTS[0]


def test_patterns_of_files_that_only_name_them_are_as_published() -> None:
    assert QWEN2.pattern == tokenization_qwen2.PRETOKENIZE_REGEX
    assert QWEN3_5.pattern == tokenization_qwen3_5.PRETOKENIZE_REGEX
    splits = gguf_tokenizer_mapping.GGUF_PRE_TOKENIZER_SPLITS
    assert (LLAMA3.pattern, TEKKEN.pattern) == (splits["llama-bpe"], splits["tekken"])
    assert O200K.pattern == splits["gpt-4o"]


def test_other_folders_still_need_the_whole(tmp_path: Path) -> None:
    write(tmp_path, trained())
    write_json(tmp_path / "config.json", {})
    before = fingerprint(tmp_path)
    (tmp_path / "merges.txt").write_text("", encoding="utf-8")
    assert fingerprint(tmp_path) != before
    (tmp_path / "vocab.json").write_bytes(b'{"a": 0')
    with pytest.raises(SafelightError, match=r"vocab\.json is damaged"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(SafelightError, match=r"tokenizer\.json is missing"):
        Tokenizer.from_folder(tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"})
    with pytest.raises(SafelightError, match=r"tokenizer\.json is missing"):
        Tokenizer.from_folder(tmp_path)
