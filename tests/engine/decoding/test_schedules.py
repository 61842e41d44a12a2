"""The schedules of masks against their authors' rules, written out as fractions of what is left."""

from __future__ import annotations

from fractions import Fraction

import pytest

from engine.decoding.masked_run import counts


@pytest.mark.parametrize("schedule", ["even", "floor", "round", "ceil"])
def test_all_masks_are_written_and_no_pass_is_empty(schedule: str) -> None:
    for masks in (1, 2, 5, 16, 39):
        for steps in (1, 2, 3, 7, 32, 64, 512):
            found = counts(masks, steps, schedule)
            assert sum(found) == masks
            assert min(found) > 0
            assert len(found) <= steps


def test_each_schedule_is_its_authors() -> None:
    """LLaDA's parts with the remainder first, Dream's floor of a time that does not reach 0, RND1's masks that stay."""
    assert counts(10, 4, "even") == [3, 3, 2, 2]
    assert counts(10, 4, "ceil") == [3, 2, 3, 2]
    for steps in (2, 5, 9):
        left, wanted = 23, list[int]()
        for step in range(steps):
            before, after = (1 - Fraction(999, 1000) * at / steps for at in (step, step + 1))
            wanted.append(left if step == steps - 1 else int(left * (1 - after / before)))
            left -= wanted[-1]
        assert counts(23, steps, "floor") == [count for count in wanted if count]
    assert counts(9, 9, "floor") == [1, 1, 1, 1, 1, 1, 1, 2]  # the first step's share is 0.999 of a mask
    assert counts(5, 2, "round") == [2, 3]  # 2.5 is rounded to the even number
    assert counts(7, 4, "round") == [2, 2, 2, 1]
