"""Runs of the embedded model: hot, so that much is accepted and dropped again, sure, in several blocks, and cut off."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from app.state.run.canvas import BlockState
from engine import MINI, Model, Trace, load_model
from tests.app.inspector.made_up import real_run

SHORT = {"max_new_tokens": 64, "max_denoising_steps": 8}
HOT = {"t_max": 4.0, "t_min": 3.0, "entropy_bound": 60.0, "confidence_threshold": 0.0} | SHORT
SEVERAL = {"eos_token_ids": (), "max_new_tokens": 150, "max_denoising_steps": 4}
RUNS = {  # the settings, and after how many events it is cancelled
    "hot": ({}, None),
    "cold": ({"t_max": 0.05, "t_min": 0.05}, None),
    "several blocks": (SEVERAL, None),
    "pinned": ({"pinned": ((0, 75), (5, 80), (63, 81)), "eos_token_ids": (), "max_denoising_steps": 12}, None),
    "cancelled in a block": ({}, 5),
    "cancelled before the second": (SEVERAL, 6),
}


@pytest.fixture(scope="session")
def model() -> Model:
    return load_model(MINI, device="cpu")


@pytest.fixture(scope="session")
def runs(model: Model) -> dict[str, Trace]:
    prompt = "Sort 17 3 42 9."
    return {name: real_run(model, prompt, most=most, **HOT | changes) for name, (changes, most) in RUNS.items()}


def picture(block: BlockState) -> dict[str, object]:
    """All of a block's facts, comparable with ==, but for its outcome, which only a replay knows beforehand."""
    facts: dict[str, object] = {}
    for field in fields(block):
        value = getattr(block, field.name)
        facts[field.name] = value.tolist() if isinstance(value, np.ndarray) else value
    del facts["outcome"]
    for calm in (True, False):
        facts[f"tokens {calm}"] = block.tokens(calm=calm).tolist()
        facts[f"states {calm}"] = block.states(calm=calm).tolist()
    return facts
