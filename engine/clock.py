"""The current time, within the years that readers of stored files accept."""

from __future__ import annotations

import time

EARLIEST, LATEST = 31_622_400.0, 253_370_678_400.0  # 2 January 1971, 31 December 9998: a day for time zones
_YEAR = 360 * 86_400.0


def this_moment() -> float:
    """Returns seconds since 1970. A clock set before 1971 or after 9998 is taken as one of 1971 that advances.

    Dates beyond cannot be written, and files with them are refused as damaged. The time still advances, as two
    conversations must not get the same beginning.
    """
    now = time.time()
    return now if EARLIEST <= now <= LATEST else EARLIEST + now % _YEAR
