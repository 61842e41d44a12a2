"""The positions of a long column's parts, most of whose heights are estimates. Knows no Qt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Heights:
    """The heights of a column's parts in pixels, from the top."""

    def __init__(self, heights: Sequence[int] = ()) -> None:
        self._heights = list(heights)
        self._tops: list[int] | None = None  # one more than parts; the last is the column's end

    def __len__(self) -> int:
        return len(self._heights)

    def height(self, index: int) -> int:
        return self._heights[index]

    def set(self, index: int, height: int) -> bool:
        """Sets a part's height. Returns True if it changed."""
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
        """Returns the index of the part at ``y``; of the first or last if outside, and 0 without parts."""
        return max(0, min(len(self) - 1, bisect_right(self._all_tops(), y) - 1))

    def between(self, top: int, bottom: int) -> range:
        """Returns the indices of the parts visible between two positions."""
        return range(self.at(top), self.at(max(top, bottom - 1)) + 1) if len(self) else range(0)

    def _all_tops(self) -> list[int]:
        if self._tops is None:
            self._tops = list(accumulate(self._heights, initial=0))
        return self._tops


def settled_value(value: int, page: int, total: int, top: int) -> int:
    """Returns the scroll position after the last part became shorter: visible text should neither move nor disappear.

    Args:
        value: the present scroll position, in pixels.
        page: height of the visible area.
        total: height of the column now.
        top: where its last part begins.
    """
    end = total - page
    if value <= end or value <= top:
        return value  # text fills the page, or the part's beginning is visible: nothing moves
    return max(end, top, 0)
