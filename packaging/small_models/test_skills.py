"""The skills: generators agree with the rules, stay within their limits, and keep the two splits apart."""

from __future__ import annotations

import hashlib
import random
from typing import get_args

import pytest

from engine.tasks.skills import MAX_ANSWER, check, examples, solve
from small_models.skills import MAX_PROMPT, SKILLS, SMALL_TALK, Split, is_held_out, sample

LONG = {"count_up", "countdown", "times_table", "small_talk"}
CHARSET = {chr(code) for code in range(32, 127)} | {"\n"}


@pytest.mark.parametrize("name", SKILLS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_generated_answers_are_right_and_within_limits(name: str, split: Split) -> None:
    rng = random.Random(f"{name} {split}")
    for _ in range(300):
        example = sample(rng, split, name)
        assert example.skill == name
        assert solve(example.prompt) == example.answer, example
        assert check(example.prompt, f" {example.answer}\n")
        assert not check(example.prompt, example.answer + "x")
        assert set(example.prompt) | set(example.answer) <= CHARSET
        assert example.answer == example.answer.strip() != ""
        assert len(example.prompt) <= MAX_PROMPT
        assert len(example.answer) <= (MAX_ANSWER if name in LONG else 60), example
        if name != SMALL_TALK:
            assert is_held_out(example.prompt) == (split == "test")


def test_about_one_task_in_sixteen_is_held_out() -> None:
    rng = random.Random(6)
    for name, (generate, _) in SKILLS.items():
        drawn = {generate(rng).prompt for _ in range(3000)}
        share = sum(map(is_held_out, drawn)) / len(drawn)
        if name == SMALL_TALK:
            assert share == 0
        else:
            assert 0.02 < share < 0.12, (name, share)


def test_a_seed_draws_what_it_always_drew() -> None:
    """Safelight Mini was trained on these tasks: a change here makes its held-out tasks others."""
    drawn = hashlib.sha256()
    for seed in range(500):
        rng = random.Random(seed)
        drawn_here = [sample(rng, split) for split in get_args(Split) for _ in range(4)]
        drawn_here += [generate(rng) for generate, _ in SKILLS.values()]
        drawn.update(repr([(e.skill, e.prompt, e.answer) for e in drawn_here]).encode())
    assert drawn.hexdigest() == "2a81e4e2d146c4140552d15e152a5cbed5739c4fae6697536e4ae5600a28faab"


def test_examples_of_the_window_are_held_out() -> None:
    assert [one for one in examples() if not is_held_out(one)] == ["What can you do?", "What is diffusion?"]
