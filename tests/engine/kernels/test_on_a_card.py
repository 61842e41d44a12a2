"""Tests that need a card: ``pytest -m gpu``. ``safelight doctor`` has the rest."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.decoding.step_program import StepFacts, StepProgram
from engine.doctor.examine import run_section
from engine.doctor.steps import ROOM, SEED, SETTINGS, TEXT, StepPair

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA card here"),
]
DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


@pytest.mark.parametrize("section", ["environment", "kernels", "steps"])
def test_the_doctor_finds_nothing_wrong(section: str) -> None:
    found = run_section(section, str(DEVICE))
    assert [check for check in found.checks if not check["ok"]] == []


@pytest.fixture(scope="module")
def pair() -> StepPair:
    with torch.inference_mode():
        return StepPair(DEVICE)


def bits(found: list[StepFacts]) -> list[Tensor]:
    return [part for facts in found for part in (facts.argmax, facts.candidates, facts.next_canvas, facts.entropy)]


@torch.inference_mode()
def test_the_same_canvas_gives_the_same_bits(pair: StepPair) -> None:
    first = bits(pair.steps(1, True))
    for _ in range(20):
        assert all(map(torch.equal, first, bits(pair.steps(1, True))))


@torch.inference_mode()
@pytest.mark.parametrize("shortened", [False, True])
def test_graphs_follow_a_cache_that_moves_and_canvases_of_another_length(pair: StepPair, shortened: bool) -> None:
    """Steps on the same cache: before and after its buffers moved, or of canvases of two lengths in turn."""

    def steps(captures: bool) -> list[Tensor]:
        program, cache = pair.program(captures, SEED)
        other = program
        if shortened:
            other = StepProgram(pair.network, cache, program.length // 2)
            other.captures = captures
            other.seed(SEED)
        found = list[StepFacts]()
        for turn, each in enumerate((program, other) * 2):
            if turn == 1 and not shortened:
                cache.reserve(TEXT + 3 * ROOM * program.length)
            each.begin(pair.canvas(1)[: each.length], None, SETTINGS)
            found += pair.launched([each], captures)
        return bits(found)

    assert all(map(torch.equal, steps(False), steps(True)))
