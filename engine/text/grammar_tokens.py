"""A model's tokens in the form that grammars need: the bytes of each, and the processes that match them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from engine.errors import SafelightError
from engine.text.matching import MatcherPool
from engine.text.tags import CALL, CALL_END, JSON_CALL, JSON_CALL_END, MARK
from engine.text.token_bytes import TokenBytes
from engine.text.tokenizer import Tokenizer


class GrammarTokens:
    """A model's tokens in the form that grammars need.

    Args:
        size: of the model's vocabulary. ends: tokens that end a text.

    Raises:
        SafelightError: its tokenizer writes tokens in a form that is not known here.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, ends: Sequence[int]) -> None:
        self.size, self.ends = size, tuple(sorted({end for end in ends if end < size}))
        if not self.ends:
            raise SafelightError("this model has no token that ends a text; so it cannot follow a format")
        self.written = TokenBytes(tokenizer, size)
        self._tags = {tag: tokenizer.token_id(tag) for tag in (CALL, CALL_END, MARK, JSON_CALL, JSON_CALL_END)}
        special = sorted(self.written.special | set(self.ends))
        self.processes = MatcherPool(self.written.with_bytes, special, self.ends, self.written.encode)

    @staticmethod
    def from_tokenizer(tokenizer: Tokenizer, size: int, ends: Sequence[int]) -> GrammarTokens:
        """Returns the one ``GrammarTokens`` of a tokenizer, which lives as long as it does. From any thread."""
        with _LOCK:
            kept = _KEPT.get(tokenizer)
            if kept is None or (kept.size, kept.ends) != (size, tuple(sorted({end for end in ends if end < size}))):
                kept = _KEPT[tokenizer] = GrammarTokens(tokenizer, size, ends)
            return kept

    def token_id(self, tag: str) -> int | None:
        """Returns the token of a tag of tool calls, if it is one token."""
        token = self._tags[tag]
        return token if token is not None and token < self.size else None

    @cached_property
    def json_signs(self) -> JsonSigns:
        """The masks of what tokens write in JSON and in calls."""
        return JsonSigns(self.written.tokens, self.token_id(MARK))

    def only(self, ids: Iterable[int]) -> NDArray[np.bool_]:
        """Returns the mask (V,) of these tokens."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[list(ids)] = True
        return mask

    @property
    def writable(self) -> str | None:
        """A pattern of all texts that can be written; None: any."""
        alphabet = self.written.alphabet
        return None if alphabet is None else f"[{''.join(map(_in_class, sorted(alphabet)))}]*"


_KEPT: WeakKeyDictionary[Tokenizer, GrammarTokens] = WeakKeyDictionary()
_LOCK = threading.Lock()


class JsonSigns:
    """Masks (V,) of the tokens by what they write in JSON and in calls.

    Args:
        mark: the tag around strings of calls; None if it is written in letters.
    """

    def __init__(self, written: Sequence[bytes], mark: int | None) -> None:
        def begin_with(signs: bytes) -> NDArray[np.bool_]:
            return np.array([text[:1] != b"" and text[:1] in signs for text in written], dtype=np.bool_)

        self.blank = np.array([text != b"" and not text.strip() for text in written], dtype=np.bool_)
        marks = begin_with(b"<") if mark is None else np.arange(len(written)) == mark
        self._ids = {text: token for token, text in enumerate(written) if len(text) == 1}
        self._mark = self._ids.get(b"<", 0) if mark is None else mark
        self._closing = {
            "": (begin_with(b"}]"), begin_with(b",")),
            "quoted": (begin_with(b'"'),),
            "marked": (marks,),
        }

    def closing(self, string: str) -> tuple[NDArray[np.bool_], ...]:
        """Returns the tokens that end a value soonest; in a ``quoted`` or ``marked`` string those that end it."""
        return self._closing[string]

    def shortest(self, string: str) -> list[int]:
        """Returns those of the closing tokens that write nothing more."""
        if string == "marked":
            return [self._mark]
        return [self._ids[sign] for sign in ((b'"',) if string else (b"}", b"]", b",")) if sign in self._ids]


def _in_class(sign: str) -> str:
    return f"\\{sign}" if sign in r"\]^-[&~/" else "\\n" if sign == "\n" else sign
