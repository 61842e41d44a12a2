"""A history of earlier prompts, for the arrow keys. Knows no Qt."""

from __future__ import annotations

from collections.abc import Sequence

from app.design.text_field import fits


class PromptHistory:
    """Prompts of this session and of the shown conversation, and the present place in them.

    A walk through them begins at the draft. Edits made during a walk are kept until ``leave`` ends it. Prompts too long
    for the field are left out: they can be copied from their turns.
    """

    def __init__(self) -> None:
        self._session: list[str] = []
        self._conversation: list[str] = []
        self._walked: tuple[str, ...] = ()  # the prompts when the walk began
        self._lines: list[str] = []  # the same with their edits, then the draft; empty without a walk
        self._place = 0

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompts of the session, then those of the conversation, oldest first and each once."""
        latest_first = dict.fromkeys(reversed([*self._session, *self._conversation]))
        return tuple(reversed(latest_first))

    @property
    def place(self) -> tuple[int, int] | None:
        """The number of the shown earlier prompt, counted from 1, and the number of prompts; None at the draft."""
        last = len(self._lines) - 1
        return (self._place + 1, last) if self._place < last else None

    def set_conversation(self, prompts: Sequence[str]) -> None:
        """Sets the prompts of the shown conversation, oldest first; does not affect a walk that has begun."""
        self._conversation = [prompt for prompt in prompts if prompt.strip() and fits(prompt)]

    def remember(self, prompt: str) -> None:
        """Adds a prompt that was sent as the latest one."""
        if prompt.strip() and fits(prompt):
            self._session.append(prompt)
            self._conversation.append(prompt)

    def leave(self) -> None:
        """Ends the walk; the text in the field is the draft from now on."""
        self._lines = []
        self._place = 0

    def older(self, shown: str) -> str | None:
        """Returns the prompt before the shown one; None at the oldest. ``shown`` is the field's text, which is kept."""
        return self._step(-1, shown)

    def newer(self, shown: str) -> str | None:
        """Returns the prompt after the shown one, at the end the draft; None after that. ``shown`` as in ``older``."""
        return self._step(1, shown)

    def _step(self, by: int, shown: str) -> str | None:
        at_draft = self._place == len(self._lines) - 1
        if not self._lines or (at_draft and self._walked != self.prompts):
            self._walked = self.prompts
            self._lines = [*self._walked, shown]
            self._place = len(self._walked)
        self._lines[self._place] = shown
        if not 0 <= self._place + by < len(self._lines):
            return None
        self._place += by
        return self._lines[self._place]
