"""Messages for failures."""

from __future__ import annotations

import traceback

from engine.errors import SafelightError, Sentence, spoken


def explained(error: Exception) -> tuple[str, str]:
    """Returns a message for people, and the traceback of an unexpected error; empty for a ``SafelightError``."""
    if isinstance(error, SafelightError):
        return str(error), ""
    return _in_words(error), "".join(traceback.format_exception(error))


def _in_words(error: Exception) -> Sentence:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, not imported here
        return Sentence("Memory ran out. Close other programs, start a new chat, or load the model in fewer bits.")
    return Sentence("Something went wrong: {text}. Try again; the details may tell why.", text=spoken(error))
