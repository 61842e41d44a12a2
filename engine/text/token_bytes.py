"""The bytes that each token of a tokenizer writes, and a text's bytes as tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import Tokenizer as FastTokenizer

from engine.errors import SafelightError
from engine.text.tokenizer import Tokenizer

SPACE = "\u2581"  # stands for a space in SentencePiece's tokens
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTE_LEVEL = _byte_level()
"""GPT-2's letters for bytes: printable ones for themselves, the others from U+0100 on."""


class TokenBytes:
    """The bytes that a model's tokens write.

    Args:
        size: of the model's vocabulary. Tokens that the tokenizer does not know write nothing.

    Raises:
        SafelightError: the tokenizer writes tokens in an unknown form.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        self._fast = tokenizer.fast  # not the tokenizer itself, which this must not keep alive
        write = _writer(self._fast)
        self.special: frozenset[int] = frozenset(
            token for token, added in self._fast.get_added_tokens_decoder().items() if added.special and token < size
        )
        added = {token: each.content for token, each in self._fast.get_added_tokens_decoder().items()}
        self.tokens: list[bytes] = [b""] * size
        for raw, token in self._fast.get_vocab(with_added_tokens=True).items():
            if token < size:
                is_own = token in added
                self.tokens[token] = raw.encode("utf-8", "surrogatepass") if is_own else write(raw)
        lacking = {bytes([byte]) for byte in range(256)} - set(self.tokens)
        self.with_bytes: list[bytes] = [*self.tokens, *sorted(lacking)]
        """The bytes of each token, then single bytes that no token writes alone: a grammar works byte by byte."""
        self._ids = {
            written: token
            for token, written in reversed(list(enumerate(self.with_bytes)))
            if written and token not in self.special
        }
        self._longest = max(map(len, self._ids), default=0)
        self.alphabet: frozenset[str] | None = None
        """The characters that can be written; None: all of them."""
        if any(one[0] not in _NEVER for one in lacking):
            self.alphabet = frozenset(sign for sign in map(_character, self.tokens) if sign)

    def encode(self, text: str | bytes) -> list[int]:
        """Returns tokens of ``with_bytes`` that write a text: the tokenizer's own if they do, else the longest."""
        wanted = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        written = wanted.decode("utf-8", "ignore")
        ids: list[int] = self._fast.encode(written, add_special_tokens=False).ids
        known = [token for token in ids if token < len(self.tokens) and token not in self.special]
        return known if b"".join(self.tokens[token] for token in known) == wanted else self._greedy(wanted)

    def lacks(self, text: str) -> str:
        """Returns the first character of a text that cannot be written; empty if all can."""
        alphabet = self.alphabet
        return "" if alphabet is None else next((sign for sign in text if sign not in alphabet), "")

    def _greedy(self, wanted: bytes) -> list[int]:
        ids, place = list[int](), 0
        while place < len(wanted):
            sizes = range(min(self._longest, len(wanted) - place), 0, -1)
            size = next(size for size in sizes if wanted[place : place + size] in self._ids)
            ids.append(self._ids[wanted[place : place + size]])
            place += size
        return ids


_NEVER = {0xC0, 0xC1, *range(0xF5, 0x100)}  # bytes that no text in UTF-8 has


def _character(written: bytes) -> str:
    """Returns the character that a token writes, if it is a single one."""
    text = written.decode("utf-8", "ignore") if len(written) <= 4 else ""
    return text if len(text) == 1 and text.encode() == written else ""


def _writer(fast: FastTokenizer) -> Callable[[str], bytes]:
    """Returns a function from a token as it stands in the vocabulary to its bytes."""
    raw = json.loads(fast.decoder.__getstate__()) if fast.decoder is not None else {"type": "Fuse"}
    parts: Sequence[dict[str, Any]] = raw.get("decoders", [raw])
    kinds = {part["type"] for part in parts}
    if "ByteLevel" in kinds:
        table = BYTE_LEVEL
        return lambda token: bytes(table[sign] for sign in token) if all(s in table for s in token) else b""
    has_bytes, spaces = "ByteFallback" in kinds, list[tuple[str, str]]()
    for part in parts:
        match part:
            case {"type": "Replace", "pattern": {"String": old}, "content": new}:
                spaces.append((old, new))
            case {"type": "Metaspace"}:
                spaces.append((part.get("replacement", SPACE), " "))
            case {"type": "Replace"}:
                raise SafelightError("this model's tokenizer does not work with formats")

    def write(token: str) -> bytes:
        match = _BYTE.fullmatch(token) if has_bytes else None
        if match is not None:
            return bytes([int(match[1], 16)])
        for old, new in spaces:
            token = token.replace(old, new)
        return token.encode("utf-8", "surrogatepass")

    return write
