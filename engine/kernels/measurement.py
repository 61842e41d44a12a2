"""Times of products on one processor, and what they are between and beyond the ones that were measured. Reads no files.

What disturbs a measurement only adds to a time. So fewer rows, a smaller matrix or more threads never take longer here.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

from engine.config import MOST_THREADS
from engine.declared import check_fields, real, whole
from engine.errors import SafelightError

MOST_TEXT = 200  # characters of a name
ALWAYS = 2**31  # rows: at any number of them
Line: TypeAlias = Sequence[tuple[float, float]]
"""Points of a curve by their place, which rises."""


@dataclass(frozen=True)
class MeasuredSetting:
    """The conditions of a measurement."""

    processor: str
    units: str  # its instruction sets, and the one that torch uses
    torch: str
    threads: int  # all that a pass may take
    kernels: str  # a hash of our kernels in C


@dataclass(frozen=True)
class Timed:
    """The time of one call: ``rows`` rows times a matrix (outputs, inputs), or what stands for one."""

    name: str  # of ``engine.benchmarks.products.CANDIDATES``
    threads: Annotated[int, whole(1, MOST_THREADS)]
    inputs: Annotated[int, whole(1, 2**24)]
    outputs: Annotated[int, whole(1, 2**24)]
    rows: Annotated[int, whole(1, 2**20)]
    seconds: Annotated[float, real(0.0, 1e4, exclusive=True)]

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.name, str) or not 0 < len(self.name) <= MOST_TEXT or not self.name.isprintable():
            raise SafelightError("a measured product has no name; measure again")

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs


@dataclass(frozen=True)
class Measurement:
    """All times of a machine, by name and number of threads."""

    setting: MeasuredSetting
    times: tuple[Timed, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the measurement as it is kept, and as the command line prints it with ``--json``."""
        return {"setting": asdict(self.setting), "times": [asdict(time) for time in self.times]}

    def threads(self, wanted: int) -> int:
        """Returns the number of threads, of those that were measured, that is nearest to the wanted one."""
        return min({time.threads for time in self.times}, key=lambda count: (abs(count - wanted), count))

    def has(self, name: str, threads: int) -> bool:
        return (name, threads) in self._surfaces

    def seconds(self, name: str, threads: int, weights: float, rows: float) -> float:
        """Returns the time of a product with a matrix of so many numbers.

        Below the smallest matrix measured it is that one's, where the call itself takes the time; above the largest,
        and with more rows than measured, it is in proportion.

        Raises:
            KeyError: it was not measured with so many threads.
        """
        surface = self._surfaces[name, threads]
        return between([(size, between(line, rows)) for size, line in surface], weights)

    def per_weight(self, name: str, threads: int) -> float:
        """Returns the time of a product of one row with the largest matrix, divided by its numbers.

        Raises:
            KeyError: as ``seconds``.
        """
        size, line = self._surfaces[name, threads][-1]
        return line[0][1] / size

    def most_rows(self, name: str, other: str, threads: int) -> int | None:
        """Returns the rows up to which a product takes no longer than another, with the largest matrix of both.

        0: it never does; ``ALWAYS``: it does with all rows measured; None: one of them was not measured.
        """
        both = self._both(name, other, threads)
        if both is None:
            return None
        gains = [(rows, between(both[1], rows) - seconds) for rows, seconds in both[0]]
        if gains[0][1] < 0:
            return 0
        for (rows, gain), (more, loss) in pairwise(gains):
            if loss < 0:
                return int(rows + (more - rows) * gain / (gain - loss))
        return ALWAYS

    def is_faster(self, name: str, other: str, threads: int) -> bool | None:
        """Returns True if a product of the most rows is faster than another; None: one of them was not measured."""
        both = self._both(name, other, threads)
        return None if both is None else both[0][-1][1] < between(both[1], both[0][-1][0])

    def _both(self, name: str, other: str, threads: int) -> tuple[Line, Line] | None:
        mine, theirs = (dict(self._surfaces.get((each, threads), ())) for each in (name, other))
        common = mine.keys() & theirs.keys()
        return (mine[max(common)], theirs[max(common)]) if common else None

    @functools.cached_property
    def _surfaces(self) -> dict[tuple[str, int], list[tuple[int, Line]]]:
        """The sizes of matrices, each with its times by rows, levelled; by name and threads."""
        raw: dict[tuple[str, int], dict[int, dict[int, float]]] = {}
        least: dict[tuple[str, int, int, int], float] = {}
        for time in sorted(self.times, key=lambda time: time.threads):
            call = time.name, time.inputs, time.outputs, time.rows
            least[call] = min(time.seconds, least.get(call, time.seconds))
            raw.setdefault((time.name, time.threads), {}).setdefault(time.weights, {})[time.rows] = least[call]
        return {key: _levelled(sizes) for key, sizes in raw.items()}


def _levelled(sizes: dict[int, dict[int, float]]) -> list[tuple[int, Line]]:
    """Levels from the largest down: what disturbs a measurement only adds to a time."""
    levels: list[tuple[int, Line]] = []
    for size, by_rows in sorted(sizes.items(), reverse=True):
        line: list[tuple[float, float]] = []
        for rows, seconds in sorted(by_rows.items(), reverse=True):
            larger = between(levels[-1][1], rows) if levels else seconds
            line.append((rows, min(seconds, larger, line[-1][1] if line else seconds)))
        levels.append((size, line[::-1]))
    return levels[::-1]


def between(points: Sequence[tuple[float, float]], place: float) -> float:
    """Returns the value at a place: on lines between points, before them the first one's, behind them in proportion."""
    index = bisect_left(points, place, key=lambda point: point[0])
    if index == 0:
        return points[0][1]
    low, before = points[index - 1]
    if index == len(points):
        return before * place / low
    high, after = points[index]
    if place == high:
        return after
    return before + (after - before) * (place - low) / (high - low)
