"""The progress of an answer under its format: the tokens that the format takes, forces and allows next.

If an answer can no longer be held to its format, ``failure`` says why, and nothing more is taken, forced or allowed.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import SafelightError
from engine.text.grammar_matchers import allowed_by, matchers_of, reason
from engine.text.grammar_tokens import GrammarTokens
from engine.text.matching import Matcher, MatchingEndedError
from engine.text.output_format import OutputFormat
from engine.types import Cancel


@dataclass(frozen=True)
class _Place:
    """The state at the end of a JSON text."""

    is_in_string: bool = False
    is_escaped: bool = False  # the next character of the string is escaped

    def behind(self, written: bytes) -> _Place:
        inside, escaped = self.is_in_string, self.is_escaped
        for byte in written:
            if escaped:
                escaped = False
            elif byte == 0x22:
                inside = not inside
            else:
                escaped = inside and byte == 0x5C
        return _Place(inside, escaped)


class GrammarState:
    """An answer under a format. Closing it returns its process to the pool."""

    def __init__(self, format: OutputFormat, tokens: GrammarTokens, cancel: Cancel | None = None) -> None:
        """Begins an answer.

        Args:
            cancel: ends the process at any moment.

        Raises:
            SafelightError: no text of the model fits, or none can be held to it; names the place.
        """
        self._tokens = tokens
        self.has_ended = False  # an end token was taken
        self.failure = ""
        self._json, self._place = tokens.json_signs if format.is_json else None, _Place()
        process = tokens.processes.lend(cancel)
        self._give_back = weakref.finalize(self, tokens.processes.give_back, process)
        try:
            self._matchers = matchers_of(format, tokens, process)
        except MatchingEndedError as error:
            self.close()
            raise SafelightError(f"no answer can be held to this format: {error}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Frees its resources. May be called twice; the garbage collector calls it at the latest."""
        self._matchers = []
        self._give_back()

    def take(self, ids: Sequence[int]) -> int:
        """Takes tokens as far as the format allows them; returns how many, including an end token."""
        if self.has_ended or self.failure:
            return 0
        ends = self._tokens.ends
        stop = next((place for place, token in enumerate(ids) if token in ends), len(ids))
        wanted = list(ids[:stop])
        try:
            taken = max((self._count(matcher, wanted) for matcher in self._matchers), default=0)
            following = [one for one in self._matchers if not taken or one.take(wanted[:taken]) == taken]
        except MatchingEndedError as error:
            return self._fail(str(error))
        if not self._keep(following):
            return 0
        self._place = self._place_behind(wanted[:taken])
        if taken == stop < len(ids) and self.may_end:
            self.has_ended = True
            taken += 1
        return taken

    @property
    def may_end(self) -> bool:
        """True if the answer is complete as it is."""
        return any(matcher.is_accepting for matcher in self._matchers)

    @property
    def must_end(self) -> bool:
        """True if the answer is complete, and nothing can follow."""
        return bool(self._matchers) and all(one.is_accepting and one.is_stopped for one in self._matchers)

    def forced(self) -> list[int]:
        """Returns the tokens that must come next, as far as there is no choice; not taken yet."""
        found = list[int]()
        if not self.has_ended:
            try:
                found = self._matchers[0].forced() if self._matchers else []
            except MatchingEndedError as error:
                self._fail(str(error))
            self._keep(self._matchers)
        return found[: next((place for place, token in enumerate(found) if token >= self._tokens.size), len(found))]

    def allowed(self) -> NDArray[np.bool_]:
        """Returns the mask (V,) of tokens that may come next, without white space that JSON does not need."""
        found = np.zeros(self._tokens.size, dtype=np.bool_)
        while self._matchers and not found.any():
            try:
                found = allowed_by(self._matchers[0], self._tokens)
            except MatchingEndedError as error:
                self._fail(str(error))
            if not self._matchers or not self._matchers[0].error:
                break
            self._keep(self._matchers)
        if self._json is not None and not self._place.is_in_string and (found & ~self._json.blank).any():
            found &= ~self._json.blank  # it is never needed, and could go on for ever
        return found

    def closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns those of the allowed tokens (V,) that bring the answer to its end; all, if none is known."""
        if self._json is not None:
            for mask in self._json.ends_string if self._place.is_in_string else self._json.ends_value:
                if (allowed & mask).any():
                    return allowed & mask
        return allowed

    def _count(self, matcher: Matcher, ids: Sequence[int]) -> int:
        """Returns how many tokens fit, without white space at their end that JSON does not need."""
        count = matcher.count(ids)
        if self._json is not None and count < len(ids) and not self._place_behind(ids[:count]).is_in_string:
            while count and self._json.blank[ids[count - 1]]:
                count -= 1
        return count

    def _place_behind(self, ids: Sequence[int]) -> _Place:
        if self._json is None:
            return self._place
        return self._place.behind(b"".join(self._tokens.written.tokens[token] for token in ids))

    def _keep(self, matchers: Sequence[Matcher]) -> bool:
        """Keeps the matchers that have not failed; False if none is left."""
        found = [matcher for matcher in matchers if not matcher.error]
        if not found and self._matchers:
            self._fail(next((reason(one.error) for one in self._matchers if one.error), "nothing may follow"))
        self._matchers = found
        return bool(found)

    def _fail(self, why: str) -> int:
        self.failure, self._matchers = f"the answer can no longer be held to its format: {why}", []
        return 0
