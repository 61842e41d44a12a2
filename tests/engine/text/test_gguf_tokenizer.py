"""A tokenizer out of a GGUF file's keys splits and joins every text as the tokenizer that was written there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, normalizers, pre_tokenizers
from transformers.convert_slow_tokenizer import generate_merges
from transformers.integrations.gguf import convert_gguf_tokenizer

from engine import SafelightError, catalog
from engine.text.chat_template import ChatTemplate
from engine.text.gguf_tokenizer import PRE, PREFIX, merges_from, tokenizer_files, tokenizer_of
from engine.text.token_bytes import BYTE_LEVEL
from engine.text.tokenizer import Tokenizer
from tests.engine.gguf_files import tokenizer_values

TEXTS = (
    "hello  hello\n\n\nworld",
    " a lot of   spaces ",
    "<|turn>user\nhello<turn|><|channel>thought\n<channel|>",
    "<table>ll<unk>he</table>",
    "é→漢 no such sign \u2603 \U0001f600",
    "",
)
MARKED = ("<|turn>", "<turn|>", "<|channel>", "<channel|>")


def gemma_like(folder: Path) -> Path:
    """A small tokenizer of Gemma's kind: spaces written as ▁, bytes for what is unknown, merges, tokens added."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", *MARKED]
    signs = sorted(set("helowrdasptcinkf\n<>tb/|u") | {"\u2581", "é"})
    words = ["he", "ll", "hell", "hello", "\u2581hello", "\u2581\u2581", "or", "wor", "ld", "world", "\n\n"]
    tokens = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *signs, *words, "<table>", "</table>"]
    merges = ["h e", "l l", "he ll", "hell o", "\u2581 hello", "\u2581 \u2581", "o r", "w or", "l d", "wor ld", "\n \n"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    raw = {
        "version": "1.0",
        "added_tokens": [
            {"id": tokens.index(token), "content": token, **plain, "special": token in special}
            for token in (*special, "<table>", "</table>")
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "pre_tokenizer": {
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False,
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    settings = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0]['content'] }}<turn|>")
    return folder


def made(values: dict[str, Any], folder: Path) -> Path:
    folder.mkdir()
    for name, data in tokenizer_files(values).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("kind", ["embedded", "gemma", "shown"])
def test_it_is_the_tokenizer_that_was_written(kind: str, tmp_path: Path) -> None:
    source = catalog.resolve(catalog.MINI) if kind == "embedded" else gemma_like(tmp_path / "gemma")
    values = tokenizer_values(source)
    if kind == "shown":  # as Gemma 4's converter has them
        types, tokens = values[PREFIX + "token_type"], values[PREFIX + "tokens"]
        values[PREFIX + "token_type"] = [4 if t in MARKED[2:] else n for t, n in zip(tokens, types, strict=True)]
    folder = made(values, tmp_path / "made")
    own, meant = Tokenizer.from_folder(folder), Tokenizer.from_folder(source)
    assert Tokenizer.from_parts(tokenizer_of(values)[0], "its tokenizer").fast.to_str() == own.fast.to_str()
    assert own.fast.get_vocab() == meant.fast.get_vocab()
    for text in TEXTS:
        ids = meant.encode(text)
        assert own.encode(text) == ids
        assert own.decode(ids) == meant.decode(ids)
        assert own.decode(ids, skip_special=False) == meant.decode(ids, skip_special=False)
    assert [own.is_special(i) for i in range(own.vocab_size)] == [meant.is_special(i) for i in range(own.vocab_size)]
    messages = [{"role": "user", "content": "hello"}]
    assert ChatTemplate.from_folder(folder).render(messages) == ChatTemplate.from_folder(source).render(messages)  # type: ignore[arg-type]


def test_merges_are_made_from_scores_as_transformers_makes_them() -> None:
    words = ["a", "b", "c", "ab", "bc", "abc", "aa", "aab", "cab", "<x>", "x", "<x"]
    vocabulary = {word: index for index, word in enumerate(words)}
    scores = [0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -1.0, -3.0, -2.5, -9.0, 0.0, -8.0]
    expected = generate_merges(vocabulary, list(zip(words, scores, strict=True)), {"<x>"})
    assert merges_from(vocabulary, scores, {"<x>"}) == expected
    assert len(expected) > 6


def test_without_merges_the_scores_are_taken(tmp_path: Path) -> None:
    source = gemma_like(tmp_path / "gemma")
    values = tokenizer_values(source, "llama")
    del values[PREFIX + "merges"]
    order = ["\n\n", "world", "ld", "wor", "or", "\u2581\u2581", "\u2581hello", "hello", "hell", "ll", "he"][::-1]
    values[PREFIX + "scores"] = [-1.0 - order.index(t) if t in order else 0.0 for t in values[PREFIX + "tokens"]]
    own, meant = Tokenizer.from_folder(made(values, tmp_path / "made")), Tokenizer.from_folder(source)
    assert [own.encode(text) for text in TEXTS] == [meant.encode(text) for text in TEXTS]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({PREFIX + "tokens": None}, "has no tokenizer"),
        ({PREFIX + "tokens": ["a", "a"]}, "the token 'a' twice"),
        ({PREFIX + "tokens": ["a" * 200_000]}, "a token of more than 1,024 characters"),
        ({PREFIX + "model": "bert"}, "has a tokenizer of the kind 'bert', whose rules are not in the file"),
        (
            {PREFIX + "model": "gpt2", PREFIX + "pre": "new"},
            "splits by the rules 'new', and these are run: gpt-2",
        ),
        ({PREFIX + "token_type": [1]}, "whose tokens have no types"),
        ({PREFIX + "merges": ["he llo!"]}, "the merge 'he llo!', which is not one of its tokens"),
        ({PREFIX + "merges": None}, "with neither merges nor scores"),
    ],
)
def test_what_cannot_be_used_is_said(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    values = tokenizer_values(gemma_like(tmp_path / "gemma")) | changes
    with pytest.raises(SafelightError, match=message):
        tokenizer_files({name: value for name, value in values.items() if value is not None})


def byte_values(pre: str, **more: Any) -> dict[str, Any]:
    """A tokenizer on bytes, as a GGUF file has one: a token that no merge makes, one added, one that is special."""
    letters = list(BYTE_LEVEL)
    space = next(letter for letter, byte in BYTE_LEVEL.items() if byte == 32)
    merges = [f"{space} {space}", f"{space} a", "1 2", "e r", "a b", "Ã ©"]
    tokens = [*letters, *(merge.replace(" ", "") for merge in merges), "whole", "<think>", "<|end|>", "[PAD1]"]
    types = [1] * (len(tokens) - 3) + [4, 3, 5]
    return {
        PREFIX + "model": "gpt2",
        PREFIX + "pre": pre,
        PREFIX + "tokens": tokens,
        PREFIX + "token_type": types,
        PREFIX + "merges": merges,
        PREFIX + "eos_token_id": tokens.index("<|end|>"),
        PREFIX + "bos_token_id": tokens.index("<|end|>"),
        **{PREFIX + name: value for name, value in more.items()},
    }


LLAMA_CPP_LING = (
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+"
)
"""What llama.cpp runs in place of the published expression."""


@pytest.mark.parametrize("pre", PRE)
def test_a_tokenizer_on_bytes_is_as_transformers_reads_it(pre: str, tmp_path: Path) -> None:
    values = byte_values(pre)
    own = Tokenizer.from_folder(made(values, tmp_path / "made"))
    names = ("tokens", "token_type", "merges")
    raw = {name: values[PREFIX + name] for name in names} | {"tokenizer_type": "gpt2", "pre_tokenizer_type": pre}
    meant, _ = convert_gguf_tokenizer("llama", raw)
    if pre == "smollm":  # what its tokenizer.json has, and transformers leaves out
        steps = [pre_tokenizers.Digits(individual_digits=True), meant.pre_tokenizer]
        meant.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if pre.startswith("qwen"):  # as its tokenizer.json, and transformers' class for it
        meant.normalizer = normalizers.NFC()
    if pre in ("bailingmoe", "bailingmoe2", "llada-moe"):  # which transformers does not know
        steps = [
            pre_tokenizers.Split(Regex(LLAMA_CPP_LING), "isolated"),
            pre_tokenizers.ByteLevel(False, use_regex=False),
        ]
        meant.pre_tokenizer = pre_tokenizers.Sequence(steps)
    for text in ("  12 3 ab  1234567", "We'LL Over/er\r\n\n x", "e\u0301 é 字👍🏽", "<think>a<|end|>[PAD1]", ""):
        ids = own.encode(text)
        assert ids == meant.encode(text, add_special_tokens=False).ids
        assert own.decode(ids, skip_special=False) == meant.decode(ids, skip_special_tokens=False)
    word = own.encode("whole")
    is_one = pre in ("tekken", "llama-bpe", "llama3", "llama-v3")  # whose published files say ignore_merges
    assert (len(word) == 1) == is_one
    assert own.before == own.after == ()
    assert own.is_special(own.token_id("<|end|>") or 0)
    assert not own.is_special(own.token_id("<think>") or 0)
    with pytest.raises(SafelightError, match="this is a base model"):
        ChatTemplate.from_folder(tmp_path / "made").render([{"role": "user", "content": "hi"}])


def test_what_a_file_puts_around_a_text(tmp_path: Path) -> None:
    end = 264
    kinds = {"none": {}, "before": {"add_bos_token": True}, "after": {"add_bos_token": False, "add_eos_token": True}}
    for name, flags in kinds.items():
        tokenizer = Tokenizer.from_folder(made(byte_values("qwen2", **flags), tmp_path / name))
        assert tokenizer.token_id("<|end|>") == end
        assert tokenizer.before == ((end,) if name == "before" else ())
        assert tokenizer.after == ((end,) if name == "after" else ())
    values = tokenizer_values(gemma_like(tmp_path / "gemma"), "llama")
    assert Tokenizer.from_folder(made(values, tmp_path / "says nothing")).before == (2,)
    values |= {PREFIX + "add_bos_token": False}
    assert Tokenizer.from_folder(made(values, tmp_path / "says no")).before == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", "_hello"),
        ("   hello", "__ _ _hello"),
        ("", ""),
        ("é\n world", "_ é \n _ world"),
        ("☃", "_ <0xE2> <0x98> <0x83>"),
        ("<|turn>hello<turn|>", "<|turn> _hello <turn|>"),
        ("hello<turn|>\n", "_hello <turn|> _ \n"),
        ("hello<table>hello", "_hello <table> _hello"),
    ],
)
def test_a_text_that_begins_with_a_space_of_its_own(text: str, expected: str, tmp_path: Path) -> None:
    """SentencePiece's files of Llama 2 and Mistral ask for it, behind added tokens, too; ``_`` is its space."""
    values = tokenizer_values(gemma_like(tmp_path / "gemma"), "llama") | {PREFIX + "add_space_prefix": True}
    own = Tokenizer.from_folder(made(values, tmp_path / "made"))
    found = [own.fast.id_to_token(token).replace("\u2581", "_") for token in own.encode(text)]
    assert found == [part for part in expected.split(" ") if part]
    if "<" not in text:
        assert own.decode(own.encode(text)) == text
    around = own.encode_rendered(f"<|turn>{own.inert(text)}<turn|>")
    assert around == own.encode(f"<|turn>{text}<turn|>") or "<" in text


def test_gemmas_merges_are_in_the_order_of_its_tokens_and_not_of_its_scores(tmp_path: Path) -> None:
    source = gemma_like(tmp_path / "gemma")
    values = tokenizer_values(source, "llama") | {"general.architecture": "gemma3"}
    merged, listed = [merge.replace(" ", "") for merge in values.pop(PREFIX + "merges")], values[PREFIX + "tokens"]
    order = {token: place for place, token in enumerate(merged)}
    tokens = sorted(listed, key=lambda token: order.get(token, -1))
    kinds = dict(zip(listed, values[PREFIX + "token_type"], strict=True))
    values[PREFIX + "tokens"] = [token.replace("\u2581\u2581", "  ") for token in tokens]
    values[PREFIX + "token_type"] = [kinds[token] for token in tokens]
    values[PREFIX + "scores"] = [0.0] * len(tokens)
    own, meant = Tokenizer.from_folder(made(values, tmp_path / "made")), Tokenizer.from_folder(source)
    for text in TEXTS:
        assert list(map(own.piece, own.encode(text))) == list(map(meant.piece, meant.encode(text)))
