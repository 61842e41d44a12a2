"""The abilities of a backend with its present model; the interface offers features by these alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from engine.declared import whole


@dataclass(frozen=True)
class Capabilities:
    """The defaults, all off, are those of a backend that only answers with text."""

    steps: bool = False  # runs report their denoising steps
    forks: bool = False  # a recorded run can be continued with changes
    infill: bool = False  # spans of finished text can be regenerated
    gaps: bool = False  # a text can be written between two others
    influence: bool = False  # the influence of one token on the others can be measured
    adapters: bool = False  # can be attached and detached
    decisions: bool = False  # questions can be decided from one read of a canvas
    structured: bool = False  # answers can be held to a format
    images: bool = False  # prompts may contain images
    parallel_runs: Annotated[int, whole(1, 10**6)] = 1  # at the same time; further ones wait
