"""Blocks that stall, by each stepper: they end by the rule, begin again from the text alone, or are rescued at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    Fork,
    GenerationConfig,
    GenerationFinished,
    SafelightError,
    StepFinished,
    TryEnded,
    fork,
    generate,
)
from engine.decoding.program_cache import ProgramCache
from engine.decoding.sampler import Sampler
from engine.decoding.stalling import StallWatch
from engine.decoding.step_program import StepProgram
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.test_autoregressive import NARROW, told
from tests.engine.decoding.test_generate import facts
from tests.engine.decoding.test_passes import ByProgram
from tests.engine.decoding.test_step_program import OnDevice, RunsAside, tame
from tests.engine.tiny import CANVAS, network, tokens

CAP = 12
CONFIG = GenerationConfig(
    max_new_tokens=3 * CANVAS,
    max_denoising_steps=CAP,
    entropy_bound=6.0,
    confidence_threshold=0.0,
    eos_token_ids=(),
    stall_steps=3,
    stall_fall=0.4,
    second_tries=2,
)


class CountedLaunches(RunsAside):
    """As on a GPU, and counts the steps that were launched."""

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
    "program": lambda: ByProgram(tame()),
    "program aside": lambda: OnDevice(tame(), derived={ProgramCache: CountedLaunches()}),
}


def test_a_canvas_has_stalled_after_so_many_steps_without_a_fall() -> None:
    watch, seen = StallWatch(3, 0.2), []
    for entropy in (1.0, 0.9, 0.81, 0.79, 0.7, 0.9, 0.64):
        near = watch.may_stall
        watch = watch.after(entropy)
        seen.append((watch.since, watch.has_stalled, near))
    assert seen == [
        *((0, False, False), (1, False, False), (2, False, False), (0, False, True)),
        *((1, False, False), (2, False, False), (3, True, True)),
    ]
    never = StallWatch(0, 0.2, level=1.0, since=99).after(1.0)
    assert (never.has_stalled, never.may_stall) == (False, False)


@pytest.mark.parametrize("name", MODELS)
def test_each_try_ends_by_the_rule_and_sees_the_text_alone(name: str) -> None:
    seen, plain = set[tuple[str, bool, bool]](), tame()
    for seed, (fall, again) in enumerate(((0.1, 2), (0.4, 1))):
        subject, config = MODELS[name](), CONFIG.replace(stall_fall=fall, second_tries=again)
        config = config.replace(pinned=((2, 40),) if seed else ())
        events = list(generate(subject, tokens(7), config, seed))
        text, steps = tokens(7), told(events, StepFinished)
        for block, end in enumerate(told(events, CanvasCommitted)):
            own = [step for step in steps if step.block_index == block]
            tries = [one for one in told(events, TryEnded) if one.block_index == block]
            assert [step.step for step in own] == list(range(end.steps))
            cache = plain.new_cache()
            plain.prefill(text, cache)
            canvas, first, means = told(events, CanvasStarted)[block].canvas, 0, list[float]()
            for number, one in enumerate(tries):
                taken, free = own[first : one.step + 1], np.arange(CANVAS) != (2 if config.pinned and not block else -1)
                guess = plain.denoise(torch.from_numpy(canvas).long(), cache).argmax(-1).numpy()
                np.testing.assert_array_equal(taken[0].argmax_canvas[free], guess[free])
                assert taken[0].temperature == config.temperature(0)
                assert not any(stalls(taken[:count], config) for count in range(1, len(taken)))
                means.append(float(taken[-1].entropy.mean()))
                assert (one.number, one.best) == (number, int(np.argmin(means)))
                assert one.has_stalled == (stalls(taken, config) and one.step + 1 < CAP)
                assert (one.then == "again") == (one is not tries[-1])
                canvas, first = one.canvas, one.step + 1
                seen.add((one.then, one.has_stalled, one.best == number))
            reason = "stalled" if tries and tries[-1].has_stalled else "step_cap"
            assert (end.reason, end.steps <= CAP, end.steps == CAP) == (reason, True, reason == "step_cap")
            if tries:
                assert end.tokens.tolist() == tries[-1].canvas.tolist()
            text = torch.cat([text, torch.from_numpy(end.tokens).long()])
        if isinstance(subject, OnDevice):  # a step that was launched ahead was taken
            assert subject.derived[ProgramCache].launched == len(steps)  # type: ignore[attr-defined]
    assert seen >= {("again", True, True), ("taken", True, True)}


def stalls(steps: list[StepFinished], config: GenerationConfig) -> bool:
    """Whether a canvas has stalled after these steps."""
    means, fall = [float(step.entropy.mean()) for step in steps], 0
    for step, mean in enumerate(means):
        fall = step if mean < means[fall] * (1 - config.stall_fall) else fall
    return len(means) - 1 - fall >= config.stall_steps


@pytest.mark.parametrize("made", [None, ByProgram], ids=["plain", "program"])
@pytest.mark.parametrize("tries", [0, 1])
def test_a_block_that_stalls_is_rescued_at_once_or_after_its_last_try(made: Any, tries: int) -> None:
    model = network(1, **NARROW)
    config = CONFIG.replace(rescue=True, rescue_probability=0.0, second_tries=tries, max_new_tokens=CANVAS)
    events = list(generate(made(model) if made else model, tokens(5), config, 2))
    *before, ended = told(events, TryEnded)
    (end,) = told(events, CanvasCommitted)
    assert ([one.then for one in before], ended.then, end.reason) == (["again"] * tries, "rescued", "stalled")
    written = [step for step in told(events, StepFinished) if step.step > ended.step]
    assert end.steps == ended.step + 1 + len(written)
    kept = int(written[0].accepted_mask.argmin()) - 1
    assert written[0].next_canvas[:kept].tolist() == ended.canvas[:kept].tolist()
    assert written[-1].accepted_mask.all()


def test_a_cancelled_second_try_ends_within_a_step() -> None:
    flag, seen = threading.Event(), list[Event]()
    for event in generate(tame(), tokens(7), CONFIG, 0, flag):
        seen.append(event)
        if told(seen, TryEnded) and isinstance(event, StepFinished):
            flag.set()
    last = seen[-1]
    assert isinstance(last, GenerationFinished)
    assert (last.reason, last.blocks, last.steps) == ("cancelled", 0, told(seen, TryEnded)[0].step + 2)


def test_runs_that_stall_are_forked_and_those_that_begin_again_are_not() -> None:
    model, config = tame(), CONFIG.replace(second_tries=0)
    events = list(generate(model, tokens(7), config, 0))
    rows = [end.tokens for end in told(events, CanvasCommitted)]
    steps = [end.steps for end in told(events, CanvasCommitted)]
    assert {end.reason for end in told(events, CanvasCommitted)} == {"stalled"}
    again = list(fork(model, tokens(7), config, 0, rows, steps, (Fork(1, 1),)))
    place = next(at for at, event in enumerate(events) if getattr(event, "block_index", 0) == 1)
    assert facts(again[1:]) == facts(events[place:])
    on = list(fork(model, tokens(7), config, 0, rows, steps, (Fork(1, steps[1], settings=(("t_max", 0.9),)),)))
    longer = told(on, CanvasCommitted)[0]
    assert steps[1] + config.stall_steps <= longer.steps <= CAP
    with pytest.raises(SafelightError, match="a run with second tries cannot be forked"):
        list(fork(model, [1], CONFIG, 0, [], [], []))


@pytest.mark.parametrize("name", MODELS)
def test_a_fork_sets_when_a_block_stalls_from_its_step_on(name: str) -> None:
    model, stalling = MODELS[name](), CONFIG.replace(second_tries=0)
    config = stalling.replace(stall_steps=0, stall_fall=0.2)
    ends = told(list(generate(model, tokens(7), config, 0)), CanvasCommitted)
    rows, steps = [end.tokens for end in ends], [end.steps for end in ends]
    assert steps == [CAP] * 3
    settings = (("stall_steps", 3.0), ("stall_fall", 0.4))
    found = list(fork(model, tokens(7), config, 0, rows, steps, (Fork(1, 2, settings=settings),)))
    own = [step for step in told(found, StepFinished) if step.block_index == 1][2:]  # the watch begins with the change
    assert stalls(own, stalling)
    assert not any(stalls(own[:count], stalling) for count in range(1, len(own)))
    assert {end.reason for end in told(found, CanvasCommitted)} == {"stalled"}
    whole = list(fork(model, tokens(7), config, 0, [], [], (Fork(0, 0, settings=settings),)))
    assert facts(whole[1:]) == facts(list(generate(model, tokens(7), stalling, 0))[1:])
    on = list(fork(model, tokens(7), stalling, 0, [], [], (Fork(0, 1, settings=(("stall_steps", 0),)),)))
    assert [end.steps for end in told(on, CanvasCommitted)] == [CAP] * 3
    tried = config.replace(second_tries=1)
    with pytest.raises(SafelightError, match="stall_steps cannot be set in a run with second tries"):
        list(fork(model, tokens(7), tried, 0, [], [], (Fork(0, 1, settings=settings),)))
