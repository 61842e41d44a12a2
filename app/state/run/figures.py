"""What a run came to, in numbers that outlive it. Knows no Qt."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from engine import SafelightError
from engine.files import parse_json

LARGEST = 2**53  # beyond it, numbers are no longer told apart
COUNTS = ("steps", "blocks", "capped_blocks")
MEASURES = ("seconds", "tokens_per_forward", "tokens_per_second")


@dataclass(frozen=True)
class Figures:
    """None where nothing is known."""

    steps: int = 0  # of all blocks
    blocks: int = 0
    capped_blocks: int = 0  # that stopped at the step cap
    seconds: float | None = None  # without prefill
    tokens_per_forward: float | None = None
    tokens_per_second: float | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Figures:
        """What was written; anything that cannot be read is not known."""
        try:
            raw = parse_json(text, "figures")
        except SafelightError:
            return Figures()
        if not isinstance(raw, dict):
            return Figures()
        counts = {name: raw[name] for name in COUNTS if type(raw.get(name)) is int and 0 <= raw[name] <= LARGEST}
        measures = {
            name: float(raw[name])
            for name in MEASURES
            if type(raw.get(name)) in (int, float) and 0 <= raw[name] <= LARGEST
        }
        return Figures(**counts, **measures)
