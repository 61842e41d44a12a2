"""A section in a separate process: ``child SECTION DEVICE``.

Results go to standard output, one JSON object per line; all other output goes to standard error.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from engine.doctor.reporter import Reporter


def main(arguments: list[str]) -> int:
    """Runs a section; the exit status is 0 if it was completed. Scripts may name an extent after the device."""
    section, device, *_ = arguments
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print, too
    import_module(f"engine.doctor.{section}").run(Reporter(out), device)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
