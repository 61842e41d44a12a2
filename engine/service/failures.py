"""Messages for unexpected failures."""

from __future__ import annotations

from engine.errors import Sentence, spoken


def in_words(error: Exception) -> Sentence:
    """Returns one line, with what to do next."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's, not imported here
        return Sentence("Memory ran out. Close other programs, start a new chat, or load the model in fewer bits.")
    return Sentence("Something went wrong: {text}. Try again; the details may tell why.", text=spoken(error))
