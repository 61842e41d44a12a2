"""Where the parts of a long column stand, when most of their heights are only guessed. Knows no Qt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Heights:
    """Parts from the top, each with its height in pixels."""

    def __init__(self, heights: Sequence[int] = ()) -> None:
        self._heights = list(heights)
        self._tops: list[int] | None = None  # one more than there are parts: the last is where the column ends

    def __len__(self) -> int:
        return len(self._heights)

    def height(self, index: int) -> int:
        return self._heights[index]

    def set(self, index: int, height: int) -> bool:
        """A part's height is known better. Returns whether that changed anything."""
        if self._heights[index] == height:
            return False
        self._heights[index] = height
        self._tops = None
        return True

    @property
    def total(self) -> int:
        return self._all_tops()[-1]

    def top(self, index: int) -> int:
        return self._all_tops()[index]

    def at(self, y: int) -> int:
        """The part that holds a height; the first or last where it is outside. 0 where there are none."""
        return max(0, min(len(self) - 1, bisect_right(self._all_tops(), y) - 1))

    def between(self, top: int, bottom: int) -> range:
        """The parts that show between two heights."""
        return range(self.at(top), self.at(max(top, bottom - 1)) + 1) if len(self) else range(0)

    def _all_tops(self) -> list[int]:
        if self._tops is None:
            self._tops = list(accumulate(self._heights, initial=0))
        return self._tops


def settled_value(value: int, page: int, total: int, top: int) -> int:
    """Where to stand after the last part has become shorter: what is read must not move, nor be out of sight.

    Args:
        value: where the top edge of what is in sight stands now, in pixels.
        page: how much is in sight.
        total: where the column ends now.
        top: where its last part begins.
    """
    end = total - page
    if value <= end or value <= top:
        return value  # text reaches the lower edge, or the part's beginning is in sight: nothing moves
    return max(end, top, 0)
