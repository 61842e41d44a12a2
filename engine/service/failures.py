"""Messages for failures."""

from __future__ import annotations

import traceback

from engine.errors import SafelightError, Sentence, spoken


def explained(error: Exception) -> tuple[str, str]:
    """Returns a message for people, and the traceback of an unexpected error; empty for a ``SafelightError``."""
    if isinstance(error, SafelightError):
        return str(error), ""
    return in_words(error), "".join(traceback.format_exception(error))


def in_words(error: Exception) -> Sentence:
    """Returns one line about an unexpected error, with what to do next."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, not imported here
        return Sentence("Memory ran out. Close other programs, start a new chat, or load the model with fewer bits.")
    return Sentence("Something went wrong: {text}. Try again; the details may say why.", text=spoken(error))
