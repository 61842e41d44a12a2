"""``packaging/`` is a folder of scripts, not a package: its modules are found by path, under their own names."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
for folder in (PACKAGING / "frozen", PACKAGING / "windows", PACKAGING / "peers", PACKAGING):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
