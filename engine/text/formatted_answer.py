"""Reads a run's tokens under the format of its answer; a thought before the answer is free, and so is its text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.text.grammar import GrammarState
from engine.text.grammar_tokens import GrammarTokens
from engine.text.output_format import OutputFormat
from engine.text.tags import CALL, CLOSE, JSON_CALL, OPEN, THINK, THINK_END, starts_in_thought
from engine.text.tokenizer import Tokenizer
from engine.types import Cancel


class FormattedAnswer:
    """The progress of a run under its format. ``close`` frees its resources.

    A thought is opened and closed by tags that are one token each. It is free except for its end: an end token in it
    closes the thought and not the text. The format begins after it, or at once if there is none. If the answer may be
    text, that is free up to the tag of a call.

    Args:
        opens, closes: the tags' tokens.
        calls: tokens that begin a call, if the answer may be text; else None.
        in_thought: the prompt ends inside one. may_think: the answer may begin with one.
    """

    def __init__(
        self,
        state: GrammarState,
        opens: Sequence[int],
        closes: Sequence[int],
        ends: Sequence[int],
        calls: Sequence[int] | None,
        *,
        in_thought: bool,
        may_think: bool,
    ) -> None:
        self._state = state
        self._opens, self._closes, self._ends = tuple(opens), tuple(closes), tuple(ends)
        self._in_thought = in_thought and bool(closes)
        self._may_think = may_think and bool(opens) and bool(closes)  # nothing was taken yet
        self._closes_now = False
        self._calls = calls
        self._in_text, self._text_ended = calls is not None, False

    @staticmethod
    def for_prompt(
        format: OutputFormat,
        tokenizer: Tokenizer,
        size: int,
        ends: Sequence[int],
        prompt: Sequence[int],
        cancel: Cancel | None = None,
    ) -> FormattedAnswer:
        """Begins the answer to a prompt. Takes seconds if the format is large; from any thread.

        Args:
            size: of the model's vocabulary. ends: tokens that end a text. cancel: stops it at any moment.

        Raises:
            SafelightError: see ``GrammarState``.
        """
        opens, closes = (
            [token for tag in tags if (token := tokenizer.token_id(tag)) is not None and token < size]
            for tags in ((OPEN, THINK), (CLOSE, THINK_END))
        )
        in_thought = starts_in_thought(tokenizer.decode(prompt, skip_special=False))
        may_think = not (in_thought or (prompt and int(prompt[-1]) in closes))
        tokens = GrammarTokens.from_tokenizer(tokenizer, size, ends)
        calls = [token for tag in (CALL, JSON_CALL) if (token := tokens.token_id(tag)) is not None]
        return FormattedAnswer(
            GrammarState(format, tokens, cancel),
            opens,
            closes,
            tokens.ends,
            calls if format.may_be_text else None,
            in_thought=in_thought,
            may_think=may_think,
        )

    def close(self) -> None:
        """Frees its resources; see ``GrammarState.close``."""
        self._state.close()

    def take(self, ids: Sequence[int]) -> int:
        """Takes tokens as far as they are allowed; returns how many, including an end token."""
        taken = 0
        if ids and self._may_think:
            self._may_think, self._in_thought = False, ids[0] in self._opens
        if self._in_thought:
            marks = (*self._closes, *self._ends)
            taken = next((place for place, token in enumerate(ids) if token in marks), len(ids))
            self._closes_now = taken < len(ids) and ids[taken] not in self._closes
            if taken == len(ids) or self._closes_now:
                return taken
            self._in_thought = False
            taken += 1
        if self._in_text:
            marks = (*(self._calls or ()), *self._ends)
            taken = next((place for place in range(taken, len(ids)) if ids[place] in marks), len(ids))
            if taken == len(ids):
                return taken
            self._in_text, self._text_ended = False, ids[taken] in self._ends
            if self._text_ended:
                return taken + 1
        return taken + self._state.take(ids[taken:])

    def forced(self) -> list[int]:
        """Returns the tokens that must come next, not taken yet; empty if there is a choice."""
        if self._in_thought:
            return [self._closes[0]] if self._closes_now else []
        return [] if self._may_think or self._in_text or self._text_ended else self._state.forced()

    def allowed(self) -> NDArray[np.bool_]:
        """Returns the mask (V,) of tokens that may come next, if there is a choice."""
        mask = self._state.allowed()
        if self._may_think:
            mask[list(self._opens)] = True
        return mask

    def closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns those of the allowed tokens (V,) that bring the answer to its end; all, if none is known."""
        return self._state.closing(allowed)

    @property
    def has_called(self) -> bool:
        """True if the answer is a whole call, or several."""
        return not (self._in_thought or self._in_text) and self._state.has_called

    @property
    def is_free(self) -> bool:
        """True if any token may come next: inside a thought or a text."""
        return (self._in_thought and not self._closes_now) or (self._in_text and not self._in_thought)

    @property
    def failure(self) -> str:
        """The reason why the answer can no longer be held to its format; empty as long as it can."""
        return self._state.failure

    @property
    def has_ended(self) -> bool:
        """True if the end token was taken."""
        return self._text_ended or self._state.has_ended

    @property
    def must_end(self) -> bool:
        """True if the answer is complete, and nothing can follow."""
        return not (self._in_thought or self._in_text) and self._state.must_end
