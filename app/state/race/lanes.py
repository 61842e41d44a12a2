"""The choice of a race's lanes. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine import MINI, WEDLM, catalog
from engine.decoders import BLOCK_DIFFUSION
from engine.model_files import model_title
from engine.service import Lane


@dataclass(frozen=True)
class LaneSpec:
    """The model, decoder and settings of a lane; an empty ``decoder`` is the model's own."""

    model: str
    decoder: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    adapter: str = ""

    @property
    def model_title(self) -> str:
        """The title of an embedded model, or a model's by where it lies."""
        return catalog.title(self.model) or model_title(Path(self.model))

    @property
    def title(self) -> str:
        """The model, its decoder, adapter and changed settings, as far as they were given."""
        said = [f"{name}={value}" for name, value in self.changes.items()]
        whole = f"{self.model_title} · {self.decoder}" if self.decoder else self.model_title
        return ", ".join(filter(None, (whole, self.adapter, *said)))

    def record(self) -> dict[str, Any]:
        """Returns the lane for JSON."""
        return {
            "title": self.title,
            "model": self.model,
            "decoder": self.decoder,
            "adapter": self.adapter,
            "settings": dict(self.changes),
        }

    def lane(self) -> Lane:
        """Returns a new lane for one race."""
        changes = {**self.changes, "decoder": self.decoder} if self.decoder else dict(self.changes)
        return Lane(self.model, self.model_title, changes, self.adapter)


def usual_lanes() -> tuple[LaneSpec, ...]:
    """Returns the lanes to begin with: two models, each with the decoder it was trained for."""
    return LaneSpec(MINI, BLOCK_DIFFUSION), LaneSpec(WEDLM, "autoregressive")
