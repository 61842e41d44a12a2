"""Stop strings in a text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopFinder:
    """Passes text on up to the first stop string; a possible beginning of one is held back.

    The first is the one that is complete first, however the text is cut. ``found`` is the string that ended the text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """Returns the next text as far as it is certain."""
        if self.found is not None:
            return ""
        whole = self._held + text
        hits = [(place + len(stop), place, stop) for stop in self._stops if (place := whole.find(stop)) >= 0]
        if hits:
            _, place, self.found = min(hits)
            self._held = ""
            return whole[:place]
        held = max((_overlap(whole, stop) for stop in self._stops), default=0)
        self._held = whole[len(whole) - held :]
        return whole[: len(whole) - held]

    def finish(self) -> str:
        """Returns the text that was held back, at the end."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """Returns how many characters at the end of a text begin the stop string."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
