"""Text between tags as it is output: no gaps in place of tags, and no new tag from the text around one."""

from __future__ import annotations

from engine.text.tags import THOUGHT, beginning

_TAIL = 32  # characters of the output that are remembered; more than any tag has


class RunningText:
    """One text that grows by pieces.

    White space after a tag is left out if the text before it ends with some, or is empty.
    """

    def __init__(self) -> None:
        self.is_at_line_start = True
        self._tail = ""
        self._lead: list[str] = []  # white space that waits for text after it
        self._is_fresh = True  # no text since the beginning, or since a tag
        self._was_cut = self._is_stripped = False

    @property
    def has_text(self) -> bool:
        """True if any text was output."""
        return bool(self._tail)

    def cut(self, *, strip: bool = False) -> None:
        """Marks a tag. ``strip``: white space after it is left out in any case."""
        self._lead.clear()
        self.is_at_line_start = self._is_fresh = self._was_cut = True
        self._is_stripped = strip or not self._tail or self._tail[-1].isspace()

    def add(self, text: str) -> str:
        """Adds a piece; returns the text to output."""
        if self._is_fresh:
            body = text.lstrip()
            self._lead.append(text[: len(text) - len(body)])
            if not body:
                return ""
            lead = "" if self._is_stripped else "".join(self._lead)
            self._lead.clear()
            self._is_fresh = False
            text = (lead or self._gap()) + body
        return self._given(text)

    def quote(self) -> str:
        """Adds a string's mark, which is a quotation mark in a text."""
        return self.add('"') if self._is_fresh else self._given(self._gap() + '"')

    def finish(self) -> str:
        """Returns white space that still waits, if there was no tag at all."""
        return "" if self._was_cut else "".join(self._lead)

    def _gap(self) -> str:
        """Returns a space if the text so far and the text after a tag could form a tag together."""
        return " " if beginning(self._tail) else ""

    def _given(self, text: str) -> str:
        line = text.rpartition("\n")
        self.is_at_line_start = (bool(line[1]) or self.is_at_line_start) and not line[2].strip()
        self._tail = (self._tail + text[-_TAIL:])[-_TAIL:]
        return text


class ThoughtText:
    """The text of all thoughts: without the channel's name and outer white space, a paragraph each."""

    def __init__(self) -> None:
        self._text = RunningText()
        self._start: str | None = None  # beginning of a thought, while it may be the channel's name
        self._space: list[str] = []  # after the text, while it may be the end

    @property
    def is_at_line_start(self) -> bool:
        """True if there is only white space on this line so far."""
        return self._text.is_at_line_start

    def begin(self, *, named: bool = True) -> None:
        """Begins a thought, with the name of its channel or without."""
        self._text.cut(strip=True)
        self._start = "" if named else None
        self._space = ["\n\n"] if self._text.has_text else []

    def cut(self) -> None:
        """Marks a tag that does not end the thought."""
        self._text.cut()

    def add(self, text: str) -> str:
        """Adds a piece; returns the text to output."""
        if self._start is not None:
            text = (self._start + text).lstrip()
            if THOUGHT.startswith(text):
                self._start = text
                return ""
            if text.startswith(THOUGHT) and text[len(THOUGHT)].isspace():
                text = text[len(THOUGHT) :]
            self._start = None
        return self._spaced(self._text.add(text))

    def quote(self) -> str:
        """Adds a string's mark, which is a quotation mark in a text."""
        return self.end() + self._spaced(self._text.quote())

    def end(self) -> str:
        """Ends the thought; returns the text that still waits."""
        start, self._start = self._start, None
        return self._spaced(self._text.add(start)) if start and start != THOUGHT else ""

    def _spaced(self, text: str) -> str:
        body = text.rstrip()
        if not body:
            self._space.append(text)
            return ""
        space, self._space = "".join(self._space), [text[len(body) :]]
        return space + body
