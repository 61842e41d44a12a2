"""Blocks that stall end by the rule, by plain steps and by programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine import (
    CanvasCommitted,
    Fork,
    GenerationConfig,
    StepFinished,
    fork,
    generate,
)
from engine.decoding.block_diffusion import FALL
from engine.decoding.sampler import Sampler
from engine.decoding.step_program import StepProgram
from engine.decoding.steppers import ProgramCache
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.test_autoregressive import of_kind
from tests.engine.decoding.test_generate import facts
from tests.engine.decoding.test_step_program import OnDevice, RunsAside, tame
from tests.engine.tiny import CANVAS, tokens

CAP = 12
CONFIG = GenerationConfig(
    max_new_tokens=3 * CANVAS,
    max_denoising_steps=CAP,
    entropy_bound=6.0,
    confidence_threshold=0.0,
    eos_token_ids=(),
    stall_steps=3,
)


class CountedLaunches(RunsAside):
    """Launches ahead as on a GPU, and counts the steps that were launched."""

    launched = 0

    def get(self, network: DiffusionGemma, cache: KVCache, sampler: Sampler) -> StepProgram:
        program = super().get(network, cache, sampler)
        real = program.launch

        def launch(index: int) -> None:
            self.launched += 1
            real(index)

        program.launch = launch  # type: ignore[method-assign]
        return program


MODELS: dict[str, Callable[[], Any]] = {
    "plain": tame,
    "program aside": lambda: OnDevice(tame(), derived={ProgramCache: CountedLaunches()}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_block_ends_by_the_rule(name: str) -> None:
    seen = set[str]()
    for seed in range(3):
        subject = MODELS[name]()
        events = list(generate(subject, tokens(7), CONFIG, seed))
        steps = of_kind(events, StepFinished)
        for block, end in enumerate(of_kind(events, CanvasCommitted)):
            own = [step for step in steps if step.block_index == block]
            assert [step.step for step in own] == list(range(end.steps))
            assert not any(stalls(own[:count], CONFIG) for count in range(1, len(own)))
            assert end.reason == ("stalled" if stalls(own, CONFIG) and end.steps < CAP else "step_cap")
            seen.add(end.reason)
        if isinstance(subject, OnDevice):  # a step that was launched ahead was taken
            assert subject.derived[ProgramCache].launched == len(steps)  # type: ignore[attr-defined]
    assert "stalled" in seen


def stalls(steps: list[StepFinished], config: GenerationConfig) -> bool:
    """True if a canvas has stalled after these steps."""
    means, fall = [float(step.entropy.mean()) for step in steps], 0
    for step, mean in enumerate(means):
        fall = step if mean < means[fall] * (1 - FALL) else fall
    return len(means) - 1 - fall >= config.stall_steps


@pytest.mark.parametrize("name", MODELS)
def test_a_fork_sets_when_a_block_stalls_from_its_step_on(name: str) -> None:
    model, stalling = MODELS[name](), CONFIG
    config = stalling.replace(stall_steps=0)
    ends = of_kind(list(generate(model, tokens(7), config, 0)), CanvasCommitted)
    rows, steps = [end.tokens for end in ends], [end.steps for end in ends]
    assert steps == [CAP] * 3
    settings = (("stall_steps", 3.0),)
    found = list(fork(model, tokens(7), config, 0, rows, steps, (Fork(1, 2, settings=settings),)))
    own = [step for step in of_kind(found, StepFinished) if step.block_index == 1][
        2:
    ]  # the watch begins with the change
    assert stalls(own, stalling)
    assert not any(stalls(own[:count], stalling) for count in range(1, len(own)))
    assert {end.reason for end in of_kind(found, CanvasCommitted)} == {"stalled"}
    whole = list(fork(model, tokens(7), config, 0, [], [], (Fork(0, 0, settings=settings),)))
    assert facts(whole[1:]) == facts(list(generate(model, tokens(7), stalling, 0))[1:])
    on = list(fork(model, tokens(7), stalling, 0, [], [], (Fork(0, 1, settings=(("stall_steps", 0),)),)))
    assert [end.steps for end in of_kind(on, CanvasCommitted)] == [CAP] * 3
