"""Blocks that stall, by programs and in forks; plain runs: ``test_oracle``."""

from __future__ import annotations

from engine import (
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
from tests.engine.decoding.seen import commits, facts, steps_of
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


def stalls(steps: list[StepFinished]) -> bool:
    """True if a canvas has stalled after these steps."""
    means, fall = [float(step.entropy.mean()) for step in steps], 0
    for step, mean in enumerate(means):
        fall = step if mean < means[fall] * (1 - FALL) else fall
    return len(means) - 1 - fall >= CONFIG.stall_steps


def test_a_block_by_programs_ends_by_the_rule() -> None:
    """A step that was launched ahead is taken."""
    seen = set[str]()
    for seed in range(3):
        programs = CountedLaunches()
        events = list(generate(OnDevice(tame(), derived={ProgramCache: programs}), tokens(7), CONFIG, seed))  # type: ignore[arg-type]
        steps = steps_of(events)
        for block, end in enumerate(commits(events)):
            own = [step for step in steps if step.block_index == block]
            assert [step.step for step in own] == list(range(end.steps))
            assert not any(stalls(own[:count]) for count in range(1, len(own)))
            assert end.reason == ("stalled" if stalls(own) and end.steps < CAP else "step_cap")
            seen.add(end.reason)
        assert programs.launched == len(steps)
    assert "stalled" in seen


def test_a_fork_sets_when_a_block_stalls_from_its_step_on() -> None:
    model, config = tame(), CONFIG.replace(stall_steps=0)
    ends = commits(generate(model, tokens(7), config, 0))
    rows, steps = [end.tokens for end in ends], [end.steps for end in ends]
    assert steps == [CAP] * 3
    settings = (("stall_steps", 3.0),)
    found = list(fork(model, tokens(7), config, 0, rows, steps, (Fork(1, 2, settings=settings),)))
    own = [step for step in steps_of(found) if step.block_index == 1][2:]  # the watch begins with the change
    assert stalls(own)
    assert not any(stalls(own[:count]) for count in range(1, len(own)))
    assert {end.reason for end in commits(found)} == {"stalled"}
    whole = list(fork(model, tokens(7), config, 0, [], [], (Fork(0, 0, settings=settings),)))
    assert facts(whole[1:]) == facts(list(generate(model, tokens(7), CONFIG, 0))[1:])
