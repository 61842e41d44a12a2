"""What a backend can do with the model it has; what may be offered to people follows from this alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """All off is a backend that only answers with text."""

    steps: bool = False  # runs tell their denoising steps
    forks: bool = False  # a recorded run can be gone on from otherwise
    infill: bool = False  # spans of settled text can be written anew
    influence: bool = False  # how far one token moves the others can be measured
    adapters: bool = False  # can be put on the model and taken off
    images: bool = False  # prompts may hold images
    parallel_runs: int = 1  # that are worked on at once; further ones wait
