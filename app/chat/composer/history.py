"""Earlier prompts to walk through with the arrow keys. Knows no Qt."""

from __future__ import annotations

from collections.abc import Sequence

from app.design.text_field import fits


class PromptHistory:
    """Prompts of this session and of the conversation on show, and where the walk through them stands.

    A walk begins at the draft. What is changed on the way stays changed while the walk lasts, so nothing is lost by
    walking on; ``leave`` ends it. Prompts that do not fit into the field are left out: their turns have them to copy.
    """

    def __init__(self) -> None:
        self._session: list[str] = []
        self._conversation: list[str] = []
        self._walked: tuple[str, ...] = ()  # what the walk began with
        self._lines: list[str] = []  # the same as changed on the way, then the draft; empty when there is no walk
        self._place = 0

    @property
    def prompts(self) -> tuple[str, ...]:
        """Oldest first, each once: those of the session, then those of the conversation."""
        latest_first = dict.fromkeys(reversed([*self._session, *self._conversation]))
        return tuple(reversed(latest_first))

    @property
    def place(self) -> tuple[int, int] | None:
        """Which earlier prompt is on show, counted from 1, and of how many; None at the draft."""
        last = len(self._lines) - 1
        return (self._place + 1, last) if self._place < last else None

    def set_conversation(self, prompts: Sequence[str]) -> None:
        """The prompts of the conversation on show, oldest first; a walk under way goes on as it is."""
        self._conversation = [prompt for prompt in prompts if prompt.strip() and fits(prompt)]

    def remember(self, prompt: str) -> None:
        """A prompt was sent: it is the latest."""
        if prompt.strip() and fits(prompt):
            self._session.append(prompt)
            self._conversation.append(prompt)

    def leave(self) -> None:
        """End the walk; the text in the field is the draft from now on."""
        self._lines = []
        self._place = 0

    def older(self, shown: str) -> str | None:
        """The prompt before the one on show; None at the oldest."""
        return self._step(-1, shown)

    def newer(self, shown: str) -> str | None:
        """The prompt after the one on show, at last the draft; None behind that."""
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
