"""The one exception type that people are shown. Its message is a single line that says what to do."""

from __future__ import annotations


class SafelightError(Exception):
    """Something the user can mend: a bad file, a bad setting, a prompt that does not fit."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split("\n")))  # libraries' messages, quoted in ours, may have several lines
