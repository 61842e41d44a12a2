"""Tests that need a card: ``pytest -m gpu``. ``safelight doctor`` has the rest."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.decoding.step_program import StepFacts, StepProgram
from engine.doctor.examine import run_section
from engine.doctor.steps import ROOM, SEED, SETTINGS, TEXT, StepPair
from engine.kernels.decode import SCALE_SHIFT
from engine.quant import E2M1_VALUES, NF4_VALUES
from tests.engine.kernels.decode_all import decode_all

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA card here"),
]
DEVICE = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
VALUES = {"int4": tuple(range(-8, 8)), "uint4": tuple(range(-8, 8)), "nf4": NF4_VALUES, "e2m1": E2M1_VALUES}


@pytest.mark.parametrize("section", ["environment", "kernels", "steps"])
def test_the_doctor_finds_nothing_wrong(section: str) -> None:
    found = run_section(section, str(DEVICE))
    assert [check for check in found.checks if not check["ok"]] == []


@pytest.mark.parametrize("codes", VALUES)
def test_every_word_is_decoded(codes: str) -> None:
    """Bit for bit: all words of four codes, each row with scales of its own."""
    shift = SCALE_SHIFT if codes == "e2m1" else 1.0
    kind = torch.float8_e4m3fn if codes == "e2m1" else torch.bfloat16
    words = torch.arange(65_536, device=DEVICE).view(4096, 16)
    parts = 4 if codes == "uint4" else 2  # scales of low and of high codes, then the numbers to add to them
    draws = torch.Generator(device=DEVICE).manual_seed(3)
    low, high, *eights = torch.randn(parts, 4096, generator=draws, device=DEVICE).to(kind).bfloat16()
    signed = torch.where(words > 32_767, words - 65_536, words).to(torch.int16)
    found = decode_all(signed, low / shift, high / shift, *eights, codes=codes, dtype=torch.bfloat16)
    values = torch.tensor(VALUES[codes]).bfloat16().to(DEVICE)
    added = [each.double()[:, None] for each in eights] or [torch.tensor(-0.0, device=DEVICE)] * 2
    halves = [(low, added[0])] * 2 + [(high, added[1])] * 2
    want = [
        (values[words >> place & 15].double() * scales.double()[:, None] + more).bfloat16()
        for place, (scales, more) in zip((0, 8, 4, 12), halves, strict=True)
    ]
    assert torch.equal(found.view(torch.int16), torch.stack(want).view(torch.int16))


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
