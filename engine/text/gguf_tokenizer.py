"""The tokenizer that a GGUF file holds, as the files that a model folder has for it.

A byte-pair tokenizer on characters, as Gemma's: tokens, their types, and merges. Where the file has scores in place of
merges, as SentencePiece has them, the merges are made from those. Others, which split a text by rules that the file
names and does not hold, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engine.errors import SafelightError, quoted
from engine.text.tokenizer_file import FILE_BYTES, MOST_MERGES, MOST_TOKENS, TOKEN_BYTES

MOST_CHARACTERS = 2**23  # of all tokens; Gemma has two million
PREFIX = "tokenizer.ggml."
MODELS = ("gemma4", "llama")  # values of ``tokenizer.ggml.model``
UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6  # values of ``tokenizer.ggml.token_type``
SPACE = "\u2581"  # what a space is written as in a vocabulary that has it
MARKS = ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>')
"""Control tokens that Gemma 4's files call user-defined, so that llama.cpp shows them."""
NAMED = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}


def tokenizer_files(values: Mapping[str, Any]) -> dict[str, bytes]:
    """``tokenizer.json``, ``tokenizer_config.json`` and ``chat_template.jinja``.

    Args:
        values: of the file's header.

    Raises:
        SafelightError: what is missing or cannot be used; goes behind the file's name.
    """
    template = values.get("tokenizer.chat_template")
    if not isinstance(template, str):
        raise SafelightError("has no chat template")
    tokens = _strings(values, "tokens", MOST_TOKENS)
    if max(map(len, tokens), default=0) > TOKEN_BYTES or sum(map(len, tokens)) > MOST_CHARACTERS:
        raise SafelightError(
            f"has a tokenizer with a token of more than {TOKEN_BYTES:,} characters, or with more than "
            f"{MOST_CHARACTERS:,} in all"
        )
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        twice = next(token for index, token in enumerate(tokens) if vocabulary[token] != index)
        raise SafelightError(f"has a tokenizer with the token {quoted(twice)} twice")
    model = values.get(PREFIX + "model")
    if model not in MODELS:
        raise SafelightError(f"has a tokenizer of the kind {quoted(model)}, whose rules are not in the file")
    if values.get(PREFIX + "add_space_prefix", model == "llama") is not False:
        raise SafelightError("has a tokenizer that puts a space before each text, which this engine does not run")
    named = {name: _named(values, key, tokens) for key, name in NAMED.items()}
    known = {name: token for name, token in named.items() if token is not None}
    file = _json(_tokenizer(values, vocabulary, known.get("unk_token")))
    if len(file) > FILE_BYTES:
        raise SafelightError(f"has a tokenizer of more than {FILE_BYTES:,} bytes, the most that is read")
    return {
        "tokenizer.json": file,
        "tokenizer_config.json": _json({"tokenizer_class": "PreTrainedTokenizerFast", **known}),
        "chat_template.jinja": template.encode(),
    }


def _tokenizer(values: Mapping[str, Any], vocabulary: dict[str, int], unknown: str | None) -> dict[str, Any]:
    tokens = list(vocabulary)
    types = values.get(PREFIX + "token_type")
    if not isinstance(types, list) or len(types) != len(tokens):
        raise SafelightError("has a tokenizer whose tokens have no types")
    added = [
        _added(index, token, is_special=kind != USER_DEFINED or token in MARKS)
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    writes_spaces, has_bytes = SPACE in vocabulary, BYTE in types
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    restore = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    decoders = [*([restore] if writes_spaces else []), *([{"type": "ByteFallback"}] if has_bytes else [])]
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": replace if writes_spaces else None,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [*decoders, {"type": "Fuse"}]},
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": has_bytes,
            "byte_fallback": has_bytes,
            "vocab": vocabulary,
            "merges": _merges(values, vocabulary, {added_token["content"] for added_token in added}),
        },
    }


def _added(index: int, token: str, *, is_special: bool) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": index, "content": token, **plain, "special": is_special}


def _merges(values: Mapping[str, Any], vocabulary: dict[str, int], added: set[str]) -> list[tuple[str, str]]:
    if PREFIX + "merges" in values:
        return [_pair(merge, vocabulary) for merge in _strings(values, "merges", MOST_MERGES)]
    scores = values.get(PREFIX + "scores")
    if not isinstance(scores, list) or len(scores) != len(vocabulary):
        if all(len(token) == 1 or token in added for token in vocabulary):
            return []  # the writer leaves out lists without items; such a vocabulary has nothing to merge
        raise SafelightError("has a tokenizer with neither merges nor scores")
    return merges_from(vocabulary, scores, added)


def _pair(merge: str, vocabulary: dict[str, int]) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
        raise SafelightError(f"has a tokenizer with the merge {quoted(merge)}, which is none of its tokens")
    return left, right


def merges_from(vocabulary: dict[str, int], scores: list[float], without: set[str]) -> list[tuple[str, str]]:
    """The merges of a SentencePiece vocabulary: every way to make a token of two, tokens of higher score first."""
    found = []
    for token, index in vocabulary.items():
        if token in without:
            continue
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [(left, right) for left, right in halves if left in vocabulary and right in vocabulary]
        made = [pair for pair in known if not without.intersection(pair)]
        made.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        found += [(scores[index], len(left), len(right), left, right) for left, right in made]
        if len(found) > MOST_MERGES:
            raise SafelightError(f"has a tokenizer of more than {MOST_MERGES:,} merges, the most that are read")
    found.sort(key=lambda entry: entry[:3], reverse=True)
    return [entry[3:] for entry in found]


def _strings(values: Mapping[str, Any], name: str, most: int) -> list[str]:
    found = values.get(PREFIX + name)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise SafelightError(f"has no tokenizer ({PREFIX}{name})")
    if len(found) > most:
        raise SafelightError(f"has a tokenizer of more than {most:,} {name}, the most that are read")
    return found


def _named(values: Mapping[str, Any], key: str, tokens: list[str]) -> str | None:
    index = values.get(f"{PREFIX}{key}_token_id")
    return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
