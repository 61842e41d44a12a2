"""JSON as our reader takes it: what it gives back can be walked, printed, encoded and compared."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

from engine.files import read_json
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

SAMPLE = {"format": "x", "version": 1, "files": [{"name": "a.bin", "bytes": 100, "hash": "00"}], "n": {"a": [1, 2.5]}}


def _make(random: Random, folder: Path) -> Attempt:
    path = folder / "some.json"
    match random.randrange(14):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(random.choice(("/dev/zero", "some.json", "/proc/self/mem", "missing")))
        case 3:
            path.write_bytes(random.choice((b"[", b'{"a":', b'[{"":')) * random.choice((50, 2_000, 500_000)))
        case 4:
            path.write_bytes(b'{"a": [' + random.choice((b"[],", b"{},", b"1,", b'"x",')) * 1_500_000 + b"0]}")
        case _:
            path.write_bytes(mutate.dumped(random, mutate.tree(random, SAMPLE)))

    def attempt() -> None:
        raw = read_json(path)
        json.dumps(raw, ensure_ascii=False, allow_nan=False).encode("utf-8")

    return attempt


KINDS = (Kind("json", _make, in_window=True),)
