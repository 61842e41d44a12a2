"""A section in a separate process: ``child SECTION DEVICE full|quick [SKIPPED CHECK …]``.

Results go to standard output, one JSON object per line; all other output goes to standard error.
"""

from __future__ import annotations

import os
import sys

from engine.doctor.reporter import Reporter
from engine.doctor.sections import planned


def main(arguments: list[str]) -> int:
    """Runs a section; the exit status is 0 if it was completed."""
    name, device, extent, *skip = arguments
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print, too
    planned(name).run(Reporter(out, frozenset(skip)), device, extent == "quick")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
