"""How long the argmax has stood still, as the step program counts it, against the rule on the whole history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig
from engine.decoding.sampler import StableAndConfident
from engine.decoding.step_program import StepProgram
from engine.kernels.reference_step import VocabularyResult
from tests.engine.tiny import CANVAS, network, tokens

CONFIDENCE = 0.5  # nats
SURE, UNSURE = 0.1, 0.9
CONFIG = GenerationConfig(confidence_threshold=CONFIDENCE)
SCRIPTS = (
    "AAAAAA",
    "ABABAB",  # what was there two steps ago is not what was there at the last
    "AABBBAAAAB",
    "AAABAAAB",
    "ABBBBBCCCC",
    "AAaaAAAaA",  # small: not confident, and still unchanged
    "AAAbBBBBaAAA",
)


@pytest.fixture(scope="module")
def program() -> Iterator[StepProgram]:
    made = network()
    cache = made.new_cache()
    cache.reserve(2 * CANVAS)
    found = StepProgram(made, cache, CANVAS)
    found.seed(0)
    yield found
    assert cache.length == 0  # kept here, as a program does not keep it alive


def argmax_of(letter: str) -> Tensor:
    """The canvas (C,) that a letter stands for: those of two letters differ in one position alone."""
    canvas = tokens(CANVAS, seed=1)
    canvas[CANVAS - 1] = "ABC".index(letter.upper())
    return canvas


def entropy_of(letter: str) -> Tensor:
    return torch.full((CANVAS,), SURE if letter.isupper() else UNSURE)


def told(program: StepProgram, script: str) -> list[bool]:
    """Whether each step of a canvas with these argmaxes counts as converged."""
    found = []
    for letter in script:
        argmax, entropy = argmax_of(letter), entropy_of(letter)
        nothing = torch.zeros(1, dtype=torch.int32)
        soft = torch.zeros_like(program.soft)
        program.settle(VocabularyResult(argmax, argmax, entropy, entropy, entropy, soft, nothing))
        found.append(bool(program.flags[0]))
    return found


def by_history(script: str, threshold: int) -> list[bool]:
    history: list[Tensor] = []
    found, rule = [], StableAndConfident(threshold, CONFIDENCE)
    for letter in script:
        history.append(argmax_of(letter))
        found.append(bool(rule(history, entropy_of(letter))))
    return found


def by_count(script: str, threshold: int) -> list[bool]:
    """The rule once more, on the letters: as many like it right before it, and a sure step."""
    said: Sequence[str] = script.upper()
    return [
        letter.isupper() and place >= threshold and set(said[place - threshold : place + 1]) == {said[place]}
        for place, letter in enumerate(script)
    ]


@pytest.mark.parametrize("threshold", [0, 1, 2, 3])
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_counter_of_the_step_program_is_the_rule_on_the_history(
    program: StepProgram, script: str, threshold: int
) -> None:
    program.begin(tokens(CANVAS), None, CONFIG.replace(stability_threshold=threshold))
    wanted = by_count(script, threshold)
    assert by_history(script, threshold) == wanted
    assert told(program, script) == wanted


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_the_counter_begins_anew_with_a_canvas(program: StepProgram, threshold: int) -> None:
    config = CONFIG.replace(stability_threshold=threshold)
    for _ in range(2):  # the second canvas has the first one's argmax from its first step on
        program.begin(tokens(CANVAS), None, config)
        assert told(program, "AAAA") == [step >= threshold for step in range(4)]
