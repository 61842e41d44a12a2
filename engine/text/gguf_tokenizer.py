"""Converts the tokenizer in a GGUF file to the tokenizer files of a model folder.

Two kinds are known. One works on characters, as Gemma's and Llama 2's: tokens, their types, and merges; if the file has
SentencePiece's scores in place of merges, the merges are made from those. The other works on bytes, as GPT-2's: the
file names the rules that split a text, and the published rules are taken from ``vocabulary_files``. An unknown name
is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.errors import SafelightError, quoted
from engine.text.token_bytes import BYTE_LEVEL
from engine.text.vocabulary_files import LING, LLAMA3, O200K, QWEN2, QWEN3_5, TEKKEN

MAX_TOKEN_CHARACTERS = 1_024  # characters of a token, each of whose splits is looked at
PREFIX = "tokenizer.ggml."
ON_CHARACTERS, ON_BYTES = ("gemma4", "llama"), "gpt2"  # values of ``tokenizer.ggml.model``
UNKNOWN, CONTROL, USER_DEFINED, BYTE = 2, 3, 4, 6  # values of ``tokenizer.ggml.token_type``
SPACE = "\u2581"  # stands for a space in a vocabulary that has it
MARKS = ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>')
"""Control tokens that Gemma 4's files call user-defined, so that llama.cpp shows them."""
SPECIAL_TOKENS = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}


_FUSE = {"type": "Fuse"}
_PLAIN_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_GPT2 = [_PLAIN_BYTES | {"use_regex": True}]
_COMPOSED = {"normalizer": {"type": "NFC"}}
_WHOLE_WORDS = {"ignore_merges": True}  # a word that is a token is that token, whatever its merges yield
PRE: dict[str, tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]] = {
    "gpt-2": (_GPT2, {}, {}),
    "smollm": ([{"type": "Digits", "individual_digits": True}, *_GPT2], {}, {}),
    "qwen2": ([QWEN2.split, _PLAIN_BYTES], _COMPOSED, {}),
    "qwen35": ([QWEN3_5.split, _PLAIN_BYTES], _COMPOSED, {}),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), ([LLAMA3.split, _PLAIN_BYTES], {}, _WHOLE_WORDS)),
    "smaug-bpe": ([LLAMA3.split, _PLAIN_BYTES], {}, {}),  # SmolLM3's
    "tekken": ([TEKKEN.split, _PLAIN_BYTES], {}, _WHOLE_WORDS),
    "gpt-4o": ([O200K.split, _PLAIN_BYTES], {}, {}),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), ([LING.split, _PLAIN_BYTES], {}, {})),
}
"""Parts of published ``tokenizer.json`` files by ``tokenizer.ggml.pre``: splitting steps, other parts, model fields."""


def tokenizer_files(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns ``tokenizer.json`` and the small files of ``tokenizer_of``; arguments and errors as there."""
    content, small = tokenizer_of(values)
    return {"tokenizer.json": _json(content), **small}


def tokenizer_of(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the content of ``tokenizer.json``; ``tokenizer_config.json`` and, except for a base model,
    ``chat_template.jinja``.

    Args:
        values: of the file's header.

    Raises:
        SafelightError: a phrase on what is missing or unusable, to follow the file's name.
    """
    model = values.get(PREFIX + "model")
    if model != ON_BYTES and model not in ON_CHARACTERS:
        raise SafelightError(f"has a tokenizer of the kind {quoted(model)}, whose rules are not in the file")
    tokens = _strings(values, "tokens")
    if max(map(len, tokens), default=0) > MAX_TOKEN_CHARACTERS:
        raise SafelightError(f"has a tokenizer with a token of more than {MAX_TOKEN_CHARACTERS:,} characters")
    known = {name: token for key, name in SPECIAL_TOKENS.items() if (token := _named(values, key, tokens)) is not None}
    make = _on_bytes if model == ON_BYTES else _on_characters
    content = make(values, tokens, known.get("unk_token")) | {"post_processor": _post_processor(values, known)}
    files = {"tokenizer_config.json": _json({"tokenizer_class": "PreTrainedTokenizerFast", **known})}
    template = values.get("tokenizer.chat_template")
    return content, files | ({"chat_template.jinja": template.encode()} if isinstance(template, str) else {})


def _post_processor(values: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any] | None:
    """Returns the part that adds BOS and EOS to a text if the file asks for it; SentencePiece adds BOS by default."""
    text: dict[str, Any] = {"Sequence": {"id": "A", "type_id": 0}}
    single, special = [text], dict[str, Any]()
    for name, is_added in (("bos", values.get(PREFIX + "model") == "llama"), ("eos", False)):
        token = known.get(f"{name}_token")
        if token is not None and values.get(f"{PREFIX}add_{name}_token", is_added) is True:
            single.insert(0 if name == "bos" else len(single), {"SpecialToken": {"id": token, "type_id": 0}})
            special[token] = {"id": token, "ids": [values[f"{PREFIX}{name}_token_id"]], "tokens": [token]}
    return {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special} if special else None


def _on_bytes(values: Mapping[str, Any], tokens: list[str], _unknown: str | None) -> dict[str, Any]:
    """Returns a tokenizer whose tokens are written in GPT-2's letters for bytes."""
    pre = values.get(PREFIX + "pre")
    if not isinstance(pre, str) or pre not in PRE:
        names = ", ".join(PRE)
        raise SafelightError(f"has a tokenizer that splits by the rules {quoted(pre)}, and these are run: {names}")
    steps, more, fields = PRE[pre]
    letters = {byte: letter for letter, byte in BYTE_LEVEL.items()}
    is_other = re.compile(f"[^{re.escape(''.join(BYTE_LEVEL))}]").search

    def spelled(token: str) -> str:
        return "".join(letters[byte] for byte in token.encode("utf-8", "replace"))

    vocabulary = _vocabulary([spelled(token) if is_other(token) else token for token in tokens])
    return {
        "version": "1.0",
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        **more,
        # A token in other letters is wrongly marked as added: the vocabulary has no token of that name.
        "added_tokens": [added for added in _added_tokens(values, tokens) if added["content"] in vocabulary],
        "model": {
            "type": "BPE",
            **fields,
            "vocab": vocabulary,
            "merges": _pairs(values, vocabulary),
        },
    }


def _on_characters(values: Mapping[str, Any], tokens: list[str], unknown: str | None) -> dict[str, Any]:
    """Returns a tokenizer in SentencePiece's form: ``SPACE`` stands for spaces, bytes for unknown characters."""
    scores = values.get(PREFIX + "scores")
    is_gemma = values.get("general.architecture") in ("gemma", "gemma2", "gemma3")
    if is_gemma and PREFIX + "merges" not in values:  # spaces are written as spaces; tokens are in the order of merges
        tokens = [SPACE * len(token) if token and not token.strip(" ") else token for token in tokens]
        scores = [-index for index in range(len(tokens))]
    vocabulary = _vocabulary(tokens)
    added = [one for one in _added_tokens(values, tokens) if not (is_gemma and not one["content"].strip(SPACE))]
    writes_spaces, has_bytes = SPACE in vocabulary, BYTE in values[PREFIX + "token_type"]
    replace: dict[str, Any] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    restore = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    decoders = [*([restore] if writes_spaces else []), *([{"type": "ByteFallback"}] if has_bytes else []), _FUSE]
    begins_with_space = values.get(PREFIX + "add_space_prefix", values.get(PREFIX + "model") == "llama") is not False
    if begins_with_space:  # so does each text behind a special token
        replace = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace]}
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": replace if writes_spaces or begins_with_space else None,
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "unk_token": unknown,
            "fuse_unk": has_bytes,
            "byte_fallback": has_bytes,
            "vocab": vocabulary,
            "merges": _merges(values, scores, vocabulary, {one["content"] for one in added}),
        },
    }


def _vocabulary(tokens: list[str]) -> dict[str, int]:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        twice = next(token for index, token in enumerate(tokens) if vocabulary[token] != index)
        raise SafelightError(f"has a tokenizer with the token {quoted(twice)} twice")
    return vocabulary


def _added_tokens(values: Mapping[str, Any], tokens: list[str]) -> list[dict[str, Any]]:
    types = values.get(PREFIX + "token_type")
    if not isinstance(types, list) or len(types) != len(tokens):
        raise SafelightError("has a tokenizer whose tokens have no types")
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": index, "content": token, **plain, "special": kind != USER_DEFINED or token in MARKS}
        for index, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]


def _merges(
    values: Mapping[str, Any], scores: Any, vocabulary: dict[str, int], added: set[str]
) -> list[tuple[str, str]]:
    if PREFIX + "merges" in values:
        return _pairs(values, vocabulary)
    if not isinstance(scores, list) or len(scores) != len(vocabulary):
        if all(len(token) == 1 or token in added for token in vocabulary):
            return []  # the writer leaves out empty lists; such a vocabulary has nothing to merge
        raise SafelightError("has a tokenizer with neither merges nor scores")
    return merges_from(vocabulary, scores, added)


def _pairs(values: Mapping[str, Any], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Returns the merges. Their halves, and those joined, are tokens."""
    pairs = list[tuple[str, str]]()
    for merge in _strings(values, "merges"):
        left, _, right = merge.partition(" ")
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise SafelightError(f"has a tokenizer with the merge {quoted(merge)}, which is not one of its tokens")
        pairs.append((left, right))
    return pairs


def merges_from(vocabulary: dict[str, int], scores: list[float], without: set[str]) -> list[tuple[str, str]]:
    """Returns the merges of a SentencePiece vocabulary: every split of a token in two, the highest scores first."""
    merges = []
    for token, index in vocabulary.items():
        if token in without:
            continue
        halves = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        known = [(left, right) for left, right in halves if left in vocabulary and right in vocabulary]
        pairs = [pair for pair in known if not without.intersection(pair)]
        pairs.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        merges += [(scores[index], len(left), len(right), left, right) for left, right in pairs]
    merges.sort(key=lambda entry: entry[:3], reverse=True)
    return [entry[3:] for entry in merges]


def _strings(values: Mapping[str, Any], name: str) -> list[str]:
    strings = values.get(PREFIX + name)
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        raise SafelightError(f"has no tokenizer ({PREFIX}{name})")
    return strings


def _named(values: Mapping[str, Any], key: str, tokens: list[str]) -> str | None:
    index = values.get(f"{PREFIX}{key}_token_id")
    return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
