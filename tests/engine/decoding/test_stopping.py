"""When a canvas counts as finished."""

from __future__ import annotations

import pytest
import torch

from engine.decoding.stopping import StableAndConfident

A, B = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
SURE, UNSURE = torch.tensor([0.0, 0.001, 0.002]), torch.tensor([0.0, 0.0, 0.03])


@pytest.mark.parametrize(
    ("threshold", "history", "entropy", "finished"),
    [
        (1, [A, A], SURE, True),
        (1, [A, A], UNSURE, False),
        (1, [B, A], SURE, False),
        (1, [A], SURE, False),  # a first step is never stable
        (1, [B, A, A], SURE, True),
        (2, [A, A], SURE, False),
        (2, [A, A, A], SURE, True),
        (2, [B, A, A], SURE, False),
        (2, [A, B, A], SURE, False),
        (0, [A], SURE, True),
        (0, [B, A], SURE, True),
        (0, [A], UNSURE, False),
    ],
)
def test_stable_and_confident(
    threshold: int, history: list[torch.Tensor], entropy: torch.Tensor, finished: bool
) -> None:
    assert StableAndConfident(threshold, 0.005)(history, entropy) is finished


def test_the_threshold_itself_is_not_below_it() -> None:
    entropy = torch.full((4,), 0.25)
    assert StableAndConfident(0, 0.25)([A], entropy) is False
    assert StableAndConfident(0, 0.2500001)([A], entropy) is True
    assert StableAndConfident(0, 0.0)([A], torch.zeros(4)) is False  # zero runs every step
