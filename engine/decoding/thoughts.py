"""Thoughts in the tokens of a run: where they begin and end, and the most tokens that one may take."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.decoding.run import Run
from engine.models.model import Model
from engine.text.tags import CLOSE, OPEN, THINK, THINK_ASKED, THINK_END, end_of_thought, starts_in_thought
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ThoughtTokens:
    """Token ids that open a thought, that close one, and by which a prompt asks for one."""

    opens: frozenset[int] = frozenset()
    closes: frozenset[int] = frozenset()
    asks: frozenset[int] = frozenset()
    starts_open: bool = False  # the prompt ends inside a thought

    @staticmethod
    def from_run(run: Run) -> ThoughtTokens:
        """Returns the tokens of a run; none for a network without a tokenizer."""
        return (
            ThoughtTokens.from_prompt(run.model.tokenizer, run.prompt)
            if isinstance(run.model, Model)
            else ThoughtTokens()
        )

    @staticmethod
    def from_prompt(tokenizer: Tokenizer, prompt: Tensor) -> ThoughtTokens:
        """Returns the tokens of a run behind a prompt (T,)."""
        text = tokenizer.decode(prompt.tolist(), skip_special=False)

        def ids(*tags: str) -> frozenset[int]:
            return frozenset(token for tag in tags if (token := tokenizer.token_id(tag)) is not None)

        asked = ids(THINK_ASKED)
        return ThoughtTokens(ids(OPEN, THINK), ids(CLOSE, THINK_END), asked, starts_in_thought(text))

    def expected(self, prompt: Tensor) -> bool:
        """True if the text behind a prompt (T,) begins in a thought, as far as the prompt shows."""
        ids = prompt.tolist()
        return self.starts_open or (ids[-1] not in self.closes and not self.asks.isdisjoint(ids))

    def is_open_behind(self, text: Iterable[int]) -> bool:
        """True if generated text ends inside a thought."""
        is_open = self.starts_open
        for token in text:
            is_open = (is_open or token in self.opens) and token not in self.closes
        return is_open


@dataclass
class ThoughtBudget:
    """Ends a run's first thought if it is still open behind a number of generated tokens.

    All generated tokens count, from the first. Without arguments there are no thoughts, and nothing is ended. Source:
    the thinking budget of Nemotron-Labs-Diffusion, as its ``ar_generate`` has it.

    Args:
        tokens: that may be generated before the thought's end, 0 or more.
        end: the token that is written then.
    """

    thoughts: ThoughtTokens = ThoughtTokens()
    tokens: int = 0
    end: int = 0

    def __post_init__(self) -> None:
        self._is_open, self._has_ended = self.thoughts.starts_open, False
        self._length = 0  # tokens of the text

    @staticmethod
    def from_run(run: Run) -> ThoughtBudget:
        """Returns the budget of a run; it ends nothing if the token for that may not be written."""
        model, config = run.model, run.config
        if config.thinking_tokens is None or not isinstance(model, Model):
            return ThoughtBudget()
        end = end_of_thought(model.tokenizer.encode, model.tokenizer.piece)
        if end is None or end in config.banned_tokens:
            return ThoughtBudget()
        return ThoughtBudget(ThoughtTokens.from_prompt(model.tokenizer, run.prompt), config.thinking_tokens, end)

    @property
    def is_due(self) -> bool:
        """True if the next token must be the thought's end."""
        return self._is_open and not self._has_ended and self._length >= self.tokens

    def add(self, token: int) -> None:
        """Counts the next token of the text."""
        closes = self._is_open and token in self.thoughts.closes
        self._is_open = (self._is_open or token in self.thoughts.opens) and not closes
        self._has_ended, self._length = self._has_ended or closes, self._length + 1

    def ending(self, tokens: Tensor) -> Tensor:
        """Returns the next tokens (R,); if the thought must end among them, those up to its end."""
        ahead = copy(self)
        for place, token in enumerate(tokens.tolist()):
            if ahead.is_due:
                return torch.cat((tokens[:place], tokens.new_tensor([self.end])))
            ahead.add(token)
        return tokens

    def cut(self, places: range) -> int:
        """Returns the place in a block at which a thought must end, if none ends before; or the block's end."""
        may_be_open = (self._is_open or bool(self.thoughts.opens)) and not self._has_ended
        return min(max(self.tokens, self._length), places.stop) if may_be_open else places.stop
