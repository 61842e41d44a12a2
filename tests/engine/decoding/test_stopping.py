"""When a canvas counts as finished."""

from __future__ import annotations

import pytest
import torch

from engine.decoding.sampler import StableAndConfident

A, B = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
SURE, UNSURE = torch.tensor([0.0, 0.001, 0.002]), torch.tensor([0.0, 0.0, 0.03])


@pytest.mark.parametrize(
    ("threshold", "history", "entropy", "finished"),
    [
        (1, [A, A], SURE, True),
        (1, [A, A], UNSURE, False),
        (1, [B, A], SURE, False),
        (1, [A], SURE, False),  # a first step is never stable
        (2, [A, A], SURE, False),
        (2, [B, A, A], SURE, False),
        (0, [A], SURE, True),
        (0, [A], UNSURE, False),
    ],
)
def test_stable_and_confident(
    threshold: int, history: list[torch.Tensor], entropy: torch.Tensor, finished: bool
) -> None:
    assert bool(StableAndConfident(threshold, 0.005)(history, entropy)) is finished


def test_each_canvas_of_a_batch_stops_by_itself() -> None:
    both = [torch.stack([A, B]), torch.stack([A, A]), torch.stack([A, A])]
    entropy = torch.stack([SURE, SURE])
    assert StableAndConfident(2, 0.005)(both, entropy).tolist() == [True, False]
    assert StableAndConfident(1, 0.005)(both, entropy).tolist() == [True, True]
    assert StableAndConfident(1, 0.005)(both, torch.stack([UNSURE, SURE])).tolist() == [False, True]
    assert StableAndConfident(0, 0.005)(both, torch.stack([SURE, UNSURE])).tolist() == [True, False]
    assert StableAndConfident(3, 0.005)(both, entropy).tolist() == [False, False]
