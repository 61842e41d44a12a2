"""What a run came to, in numbers that outlive it. Knows neither Qt nor the engine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields


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
            raw = json.loads(text)
        except ValueError:
            return Figures()
        known = {field.name for field in fields(Figures)}
        found = raw.items() if isinstance(raw, dict) else ()
        return Figures(**{name: value for name, value in found if name in known and isinstance(value, (int, float))})
