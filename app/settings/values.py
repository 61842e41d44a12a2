"""The user's settings, as overrides of a model's defaults. Without Qt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.settings.decoders import OWN_DECODING, DecodingChoice
from engine import GenerationConfig
from engine.config import LARGEST_SEED
from engine.decoders import BLOCK_DIFFUSION

DRAWN_SEED_HIGH = 999_999
"""Random seeds are short, so that people can copy them."""


def later_seed(seed: int, count: int) -> int:
    """Returns the seed ``count`` after ``seed``; wraps around to 0 after the largest."""
    return (seed + count) % (LARGEST_SEED + 1)


@dataclass
class SettingsValues:
    """The user's settings. ``overrides`` holds only values that differ from the model's defaults; with ``seed`` None
    each answer has a random one."""

    overrides: dict[str, float] = field(default_factory=dict)
    seed: int | None = None
    calm: bool = False
    reduced_motion: bool = False
    decoding: DecodingChoice = OWN_DECODING
    decoders: tuple[str, ...] = field(default=(), compare=False)  # the loaded model's decoders, its own first
    speed: float = 1.0  # playing speed of a shown block; ``FULL_SPEED`` is without delay

    @property
    def present_decoding(self) -> DecodingChoice:
        """Returns the decoding of the next run; its decoder is "" if no model names one."""
        return self.decoding.among(self.decoders)

    @property
    def view(self) -> str:
        """Returns ``calm`` as a value of the declared choice: "raw" or "calm"."""
        return "calm" if self.calm else "raw"

    @view.setter
    def view(self, value: str) -> None:
        self.calm = value == "calm"

    @property
    def pace(self) -> str:
        """Returns ``speed`` as a value of the declared choice."""
        return f"{self.speed:g}"

    @pace.setter
    def pace(self, value: str) -> None:
        self.speed = float(value)

    def value(self, name: str, defaults: GenerationConfig) -> float | None:
        """Returns the effective value of a sampler setting."""
        found: float | None = self.overrides.get(name, getattr(defaults, name))
        return found

    def set(self, name: str, value: float | None, defaults: GenerationConfig) -> None:
        """Overrides a sampler setting; None or the model's default removes the override."""
        if value is None or value == getattr(defaults, name):
            self.overrides.pop(name, None)
        else:
            self.overrides[name] = value

    def config(self, defaults: GenerationConfig, decoders: Sequence[str] = ()) -> GenerationConfig:
        """Returns the settings of a run; ``decoders`` are those of a part of the loaded model."""
        return defaults.replace(**self._changes(defaults, decoders))

    def _changes(self, defaults: GenerationConfig, decoders: Sequence[str]) -> dict[str, Any]:
        """Returns the values that differ from the defaults, limited to settings that the decoder uses."""
        shared = [name for name in decoders if name in self.decoders]
        present = self.decoding.among(shared or decoders or self.decoders)
        own = present.settings
        changes: dict[str, Any] = {name: value for name, value in self.overrides.items() if name in own}
        if changes.get("t_max", defaults.t_min) < defaults.t_min:
            changes["t_min"] = changes["t_max"]
        if present.decoder == BLOCK_DIFFUSION != self.decoding.decoder:
            present = replace(present, decoder="")  # the model's own decoder stays empty
        return changes | present.changes

    def next_seed(self, version: int = 0) -> int:
        """Returns the seed of the next answer: random, or the fixed one plus the version."""
        if self.seed is None:
            return random.randint(0, DRAWN_SEED_HIGH)
        return later_seed(self.seed, version)

    def reset(self) -> None:
        """Resets to the model's defaults and random seeds; the canvas settings stay."""
        self.overrides.clear()
        self.seed = None
        self.decoding = OWN_DECODING
