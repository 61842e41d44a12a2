"""An untrusted ``tokenizer.json``, reduced to parts whose time and memory are linear in the text.

The tokenizers library trusts its file: a regular expression may backtrack for hours, padding may allocate more memory
than there is, which kills the process. So the file is parsed here, and only the parts that a byte-pair tokenizer needs
are passed to the library, with only those regular expressions that are in ``published_patterns``. Vocabulary and
merges, with up to a million entries, stay bytes.

The file is followed as it is, as ``transformers`` does for most classes of ``tokenizer_config.json``. Two of its
classes rebuild a tokenizer by their own rules. ``Qwen2Tokenizer`` normalizes (NFC) even if the file does not; this is
done here, too, as all Qwen models were trained so. ``GPT2Tokenizer``, which SmolLM2's settings name, drops the
``Digits`` of its file; that is not done here, because SmolLM2 was trained with them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import SafelightError, quoted
from engine.files import parse_json, read_bytes
from engine.text.published_patterns import require_published

FILE_BYTES = 2**26  # Gemma's has 33 MB
MOST_TOKENS = 2**19  # Gemma has 2^18
MOST_MERGES = 2**20  # Gemma has half of them
TOKEN_BYTES = 1_024  # of a token as it is written in the file
MOST_ADDED, ADDED_CHARACTERS = 2**14, 2**18  # Gemma has 6 000 tokens besides the vocabulary
MOST_PARTS = 8  # of a sequence of normalizers, splits, decoders or post-processors
MOST_AROUND = 8  # tokens that are added to a text
CONTENT = 16  # characters that may replace a single one

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_PAIR = rb'\[(?:[^"\[\]{}]++|' + _STRING + rb")*+\]"
_FLAT = rb'(?:[^"\[\]{}]++|' + _STRING + rb"|" + _PAIR + rb")*+"
_BULK = re.compile(rb'("vocab"\s*+:\s*+)(\{' + _FLAT + rb'\})|("merges"\s*+:\s*+)(\[' + _FLAT + rb"\])", re.DOTALL)

_NORMALIZERS = ("Replace", "Prepend", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents")
_SPLITS = ("Split", "ByteLevel", "Metaspace", "Whitespace", "WhitespaceSplit", "Digits", "Punctuation")
_DECODERS = ("Replace", "ByteFallback", "Fuse", "Metaspace", "ByteLevel", "Strip")


@dataclass(frozen=True)
class TokenizerFile:
    """The parts of a ``tokenizer.json`` that are used."""

    library: bytes  # the parts that are passed to the library, as JSON
    before: tuple[int, ...] = ()  # tokens that its post-processor puts before a text, such as BOS
    after: tuple[int, ...] = ()


def read_tokenizer_file(path: Path, *, composes: bool = False) -> TokenizerFile:
    """Reads a ``tokenizer.json``.

    Args:
        composes: characters are composed (NFC) if the file names no normalizer.

    Raises:
        SafelightError: it is missing, damaged, out of bounds, or another kind of tokenizer.
    """
    try:
        data = read_bytes(path, FILE_BYTES)
    except FileNotFoundError:
        raise SafelightError(f"{path} is missing; download the model again") from None
    except OSError as error:
        raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from error
    return reduced(data, str(path), composes=composes)


def reduced(data: bytes, name: str, *, composes: bool = False) -> TokenizerFile:
    """Does the same as ``read_tokenizer_file``, for a file's content; ``name`` is for messages."""
    bulk: list[bytes] = []

    def keep(found: re.Match[bytes]) -> bytes:
        bulk.append(found[2] or found[4])
        return (found[1] or found[3]) + b"%d" % (len(bulk) - 1)

    try:
        outline = _BULK.sub(keep, data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SafelightError(f"{name} is damaged: it is not UTF-8 text (byte {error.start})") from error
    raw = parse_json(outline, name)
    try:
        return _rebuilt(raw, bulk, composes)
    except SafelightError as error:
        raise SafelightError(f"{name} {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise SafelightError(f"{name} is damaged ({type(error).__name__}: {error}); download it again") from error


def _rebuilt(raw: Any, bulk: list[bytes], composes: bool) -> TokenizerFile:
    model = raw["model"]
    if model.get("type", "BPE") != "BPE":
        raise SafelightError(f"has a {quoted(model['type'])} model; this engine runs byte-pair tokenizers (BPE)")
    if model.get("dropout"):
        raise SafelightError("drops merges at random, so a text has several meanings; use another tokenizer")
    vocabulary, merges = (_bulk(model, name, bulk) for name in ("vocab", "merges"))
    if max(map(len, _strings(vocabulary)), default=0) > TOKEN_BYTES:
        raise SafelightError(f"has a token of more than {TOKEN_BYTES} bytes")
    # Keys are quoted, and so is each half of a pair; an old file has both halves in one string.
    if vocabulary.count(b",") >= MOST_TOKENS and len(_strings(vocabulary)) // 2 > MOST_TOKENS:
        raise SafelightError(f"has more than {MOST_TOKENS:,} tokens")
    if merges.count(b",") >= MOST_MERGES and len(_strings(merges)) // 4 > MOST_MERGES:
        raise SafelightError(f"has more than {MOST_MERGES:,} merges")
    composing = {"type": "NFC"} if composes else None
    outer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(raw.get("added_tokens") or []),
        "normalizer": _parts(raw.get("normalizer") or composing, "normalizers", _NORMALIZERS),
        "pre_tokenizer": _parts(raw.get("pre_tokenizer"), "pretokenizers", _SPLITS),
        "post_processor": None,  # see ``_around``
        "decoder": _parts(raw.get("decoder"), "decoders", _DECODERS),
    }
    if model.get("continuing_subword_prefix"):  # cut off every merged token: the library aborts within a character
        raise SafelightError("has tokens that continue a word by a prefix, which this engine does not run")
    names = "unk_token end_of_word_suffix fuse_unk byte_fallback ignore_merges"
    inner = {"type": "BPE", "dropout": None} | {name: model[name] for name in names.split() if name in model}
    for name in names.split()[:2]:
        if len(inner.get(name) or "") > CONTENT * 4:
            raise SafelightError(f"has a {name} of more than {CONTENT * 4} characters")
    parts = (json.dumps(outer)[:-1], ', "model": ', json.dumps(inner)[:-1], ', "vocab": ')
    library = "".join(parts).encode() + vocabulary + b', "merges": ' + merges + b"}}"
    return TokenizerFile(library, *_around(raw.get("post_processor")))


def _bulk(model: dict[str, Any], name: str, bulk: list[bytes]) -> bytes:
    place = model[name]
    if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < len(bulk):
        raise SafelightError(f"has a model whose {name} is damaged; download it again")
    return bulk[place]


def _strings(data: bytes) -> list[bytes]:
    """Returns the quoted strings, and the text between them."""
    return data.replace(rb"\\", b"__").replace(rb"\"", b"__").split(b'"')


def _added(tokens: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(tokens) > MOST_ADDED or sum(len(token["content"]) for token in tokens) > ADDED_CHARACTERS:
        raise SafelightError(
            f"adds more than {MOST_ADDED:,} tokens to its vocabulary, or more than {ADDED_CHARACTERS:,} characters"
        )
    for token in tokens:
        if len(token["content"]) > TOKEN_BYTES:
            raise SafelightError(f"has a token of more than {TOKEN_BYTES} characters")
    return tokens


def _around(part: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the tokens that a post-processor puts before and after a text."""
    for one in _sequence(part, "processors"):
        if one["type"] == "TemplateProcessing":
            pieces = one["single"]
            (text,) = (place for place, piece in enumerate(pieces) if "Sequence" in piece)
            return _ids(one, pieces[:text]), _ids(one, pieces[text + 1 :])
        if one["type"] != "ByteLevel":  # ByteLevel trims offsets, and adds nothing
            raise SafelightError(f"asks for {quoted(one['type'])} after splitting, which this engine does not run")
    return (), ()


def _ids(processor: dict[str, Any], pieces: list[dict[str, Any]]) -> tuple[int, ...]:
    known = [processor["special_tokens"][piece["SpecialToken"]["id"]]["ids"] for piece in pieces[: MOST_AROUND + 1]]
    if sum(map(len, known)) > MOST_AROUND or len(known) > MOST_AROUND:
        raise SafelightError(f"adds more than {MOST_AROUND} tokens to each text")
    found = tuple(token for ids in known for token in ids)
    if any(type(token) is not int or not 0 <= token < 2**32 for token in found):
        raise SafelightError("adds unknown tokens to each text")
    return found


def _sequence(part: Any, inner: str) -> list[Any]:
    """Returns the parts of a sequence, or the single part."""
    if part is None:
        return []
    parts: list[Any] = part[inner] if part["type"] == "Sequence" else [part]
    if len(parts) > MOST_PARTS:
        raise SafelightError(f"has more than {MOST_PARTS} {inner}")
    return parts


def _parts(part: Any, inner: str, known: tuple[str, ...]) -> Any:
    """Returns a normalizer, a split or a decoder unchanged, after checking it and its parts."""
    growth = 1
    for one in _sequence(part, inner):
        if one["type"] not in known:
            raise SafelightError(f"asks for {quoted(one['type'])} among its {inner}, which this engine does not run")
        if one.get("stop") or one.get("prepend") == "":  # the library panics at shorter or empty texts
            raise SafelightError("strips the ends of tokens, or prepends nothing, which this engine does not run")
        pattern = one.get("pattern")
        if pattern is not None and "Regex" in pattern:
            require_published(one)
        elif pattern is not None and (list(pattern) != ["String"] or not pattern["String"]):
            raise SafelightError("splits or replaces by neither a text nor a regular expression")
        contents = [one.get(name, "") for name in ("content", "prepend", "replacement")]
        if max(map(len, contents)) > CONTENT:
            raise SafelightError(f"replaces text by more than {CONTENT} characters")
        growth *= 1 + max(map(len, contents)) // len((pattern or {}).get("String", " "))
    if growth > 4 * CONTENT:
        raise SafelightError(f"makes a text more than {4 * CONTENT} times as long")
    return part
