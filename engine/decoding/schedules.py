"""Schedules of published models: how many masks of a block each of its passes writes. Pure functions.

Each is computed in the numbers of its authors' code, since a rounding may move a token to another pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

DREAM_END = 1e-3  # the time of Dream's last step; the first one begins at 1


def counts(masks: int, steps: int, schedule: str) -> list[int]:
    """Returns the number of masks that each pass writes, ``masks`` in all. Passes that write none are left out.

    Args:
        masks, steps: of the block; the last step writes what is left.
        schedule: "even" (LLaDA, SDAR), "floor" (Dream), "round" (dllm's MDLM and BD3-LM), or "ceil" (RND1), whose steps
            leave equal shares of all masks, rounded down.
    """
    found, left, shares = list[int](), masks, _shares(steps, schedule)
    for step in range(steps):
        behind = steps - 1 - step  # steps
        if schedule == "even":
            count = -(-left // (behind + 1))
        elif schedule == "ceil":
            count = left - int(torch.tensor(masks) * (behind / steps))
        elif schedule == "floor":
            count = int(left * shares[step])
        else:
            count = round(left * shares[step].double().item())
        count = min(left, max(0, count)) if behind else left
        left -= count
        found += [count] if count else []
    return found


def dream_times(steps: int) -> Tensor:
    """Returns the times (steps + 1,) between Dream's steps, falling from 1."""
    return torch.linspace(1, DREAM_END, steps + 1)


def _shares(steps: int, schedule: str) -> Tensor:
    """Returns the share of the masks left that each step writes (steps,)."""
    if schedule == "floor":
        times = dream_times(steps)
    else:  # dllm's: the share of text that is written grows linearly, and is taken from 1
        times = 1 - (1 - torch.tensor([left / steps for left in range(steps, -1, -1)]))
    return 1 - times[1:] / times[:-1]
