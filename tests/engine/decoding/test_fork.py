"""Forks: a run goes on from the middle of another, bit for bit where nothing is changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from engine import (
    CanvasStarted,
    Event,
    Fork,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    SafelightError,
    StepFinished,
    chain,
    fork,
    generate,
)
from engine.declared import plain, read
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.seen import commits, end_of, facts, steps_of, stopped
from tests.engine.decoding.test_reuse import Counting
from tests.engine.decoding.test_step_program import OnDevice, tame
from tests.engine.tiny import CANVAS, FULL, SLIDING, VOCABULARY, network, tokens

PROMPT, SEED = tokens(12, 3), 1
CONFIG = GenerationConfig(
    max_new_tokens=30, max_denoising_steps=5, eos_token_ids=(), entropy_bound=6.0, confidence_threshold=0.0, top_k=3
)
UNEVEN = CONFIG.replace(confidence_threshold=2.0, stability_threshold=0, t_min=0.3, t_max=0.5, max_denoising_steps=7)


@cache
def _network() -> DiffusionGemma:
    return network(1, layers=(SLIDING, FULL))


@pytest.fixture
def model() -> Counting:
    return Counting(_network())


@cache
def played(config: GenerationConfig = CONFIG) -> list[Event]:
    """The run that most tests fork. Nobody changes it."""
    return play(Counting(_network()), config)


@cache
def played_with_cache() -> tuple[Counting, KVCache, list[Event]]:
    """Plays that run again with the cache that it filled, for tests that must leave both as they are."""
    model = Counting(_network())
    cache = model.new_cache()
    return model, cache, play(model, cache=cache)


def play(
    model: Any, config: GenerationConfig = CONFIG, prompt: Tensor = PROMPT, cache: KVCache | None = None
) -> list[Event]:
    return list(generate(model, prompt, config, SEED, cache=cache))


def go_on(
    model: Any,
    events: Sequence[Event],
    *changes: Fork,
    config: GenerationConfig = CONFIG,
    prompt: Tensor = PROMPT,
    cache: KVCache | None = None,
    cancel: threading.Event | None = None,
) -> list[Event]:
    """Fork the run of these events."""
    done = commits(events)
    rows, counts = [event.tokens for event in done], [event.steps for event in done]
    return list(fork(model, prompt, config, SEED, rows, counts, changes, cancel, cache))


def behind(events: Sequence[Event], block: int, step: int = 0) -> list[Event]:
    """The events from a step on; from step 0 on with the block's beginning."""
    for place, event in enumerate(events):
        is_there = isinstance(event, CanvasStarted) if step == 0 else getattr(event, "step", -1) == step
        if is_there and event.block_index == block:  # type: ignore[union-attr]
            return list(events[place:])
    raise AssertionError


def places(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Lists where a run can be forked: before each step, and behind each block's last one."""
    return [(done.block_index, step) for done in commits(events) for step in range(done.steps + 1)]


def assert_goes_on(found: Sequence[Event], run: Sequence[Event], block: int) -> None:
    assert isinstance(found[0], PrefillFinished)
    assert found[0].prompt_tokens == len(PROMPT)
    assert facts(list(found[1:])) == facts(behind(run, block))


# --- nothing changed -------------------------------------------------------------------------------------------------


def test_a_fork_without_a_change_is_the_run_bit_for_bit(model: Counting) -> None:
    cache, short = model.new_cache(), UNEVEN.replace(max_new_tokens=20)
    run = play(model, short, cache=cache)
    for number, (block, step) in enumerate(places(run)):
        held = cache if number % 2 else None
        assert_goes_on(go_on(model, run, Fork(block, step), config=short, cache=held), run, block)
    assert len({event.steps for event in commits(run)}) > 1


def test_only_what_the_cache_lacks_is_read_and_no_earlier_step_is_taken(
    model: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = model.new_cache()
    run = play(model, cache=cache)
    taken = []
    denoise = model.inner.denoise
    monkeypatch.setattr(
        model, "denoise", lambda canvas, *rest: (taken.append(cache.length), denoise(canvas, *rest))[1], raising=False
    )
    for block, expected in ((2, []), (1, [CANVAS]), (0, [CANVAS, CANVAS])):
        taken.clear()
        model.read.clear()
        found = go_on(model, run, Fork(block, 2), cache=cache)
        assert found[0].reused_tokens == len(PROMPT)  # type: ignore[union-attr]
        assert model.read == expected  # the blocks before the last one, as the run itself commits them
        assert taken == [length for length in (12, 22, 32)[block:] for _ in range(5)]
    model.read.clear()
    edited = [commits(run)[0].tokens.copy(), commits(run)[1].tokens]
    edited[0][3] += 1
    list(fork(model, PROMPT, CONFIG, SEED, edited, [5, 5], [Fork(2, 0)], cache=cache))
    assert model.read == [CANVAS, CANVAS]  # whole, though they part inside the first one


# --- something changed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [(0, 0), (1, 4), (2, 5)])
def test_pins_hold_from_the_fork_on(model: Counting, place: tuple[int, int]) -> None:
    block, step = place
    run, pinned = played(), ((0, 77), (4, 3), (9, 127))
    at, ids = (list(column) for column in zip(*pinned, strict=True))
    changes = [Fork(*place, pinned=pinned, settings=(("max_denoising_steps", 8),))]
    found = go_on(model, run, *changes)
    own = [event for event in steps_of(found) if event.block_index == block]
    assert facts(own[:step]) == facts([event for event in steps_of(run) if event.block_index == block][:step])  # type: ignore[arg-type]
    assert len(own) == 8
    for event in own[step:]:
        for row in (event.argmax_canvas, event.candidates, event.next_canvas):
            assert row[at].tolist() == ids
        assert (event.entropy[at] == 0).all()
        assert event.top_tokens is not None
        assert event.top_tokens[at, 0].tolist() == ids
    assert commits(found)[0].tokens[at].tolist() == ids
    assert any(event.next_canvas[at].tolist() != ids for event in own[:step]) or not step
    start = behind(found, block)[0]
    assert isinstance(start, CanvasStarted)
    assert np.flatnonzero(start.pinned_mask).tolist() == (at if step == 0 else [])
    if step == 0:
        assert start.canvas[at].tolist() == ids
    if block < 2:
        later = behind(found, block + 1)
        assert not later[0].pinned_mask.any()  # type: ignore[union-attr]
        assert any(event.next_canvas[at].tolist() != ids for event in steps_of(later))


@pytest.mark.parametrize(("place", "kept"), [((0, 0), 3), ((1, 3), 127)])
def test_banned_tokens_never_appear(model: Counting, place: tuple[int, int], kept: int) -> None:
    """Few or many tokens are left."""
    run = played(CONFIG.replace(top_k=8))
    banned = tuple(sorted(set(range(VOCABULARY)) - set(tokens(400, kept).tolist()[:kept])))
    seen: list[Tensor] = []
    model.denoise = lambda canvas, *rest: (seen.append(canvas), model.inner.denoise(canvas, *rest))[1]  # type: ignore[attr-defined]
    found = go_on(model, run, Fork(*place, banned=banned), config=CONFIG.replace(top_k=8))
    after = behind(found, *place)
    for event in after:
        for name in ("canvas", "argmax_canvas", "candidates", "next_canvas", "tokens", "top_tokens"):
            if hasattr(event, name) and not isinstance(event, GenerationFinished):
                assert not set(np.ravel(getattr(event, name)).tolist()) & set(banned), name
        if isinstance(event, StepFinished):
            assert event.top_tokens is not None
            assert event.top_tokens.shape == (CANVAS, 8)
    assert not any(set(canvas.tolist()) & set(banned) for canvas in seen[place[1] :])  # what is on the canvas counts
    if place[1]:
        assert any(set(event.next_canvas.tolist()) & set(banned) for event in steps_of(found)[: place[1]])


@pytest.mark.parametrize(("block", "step"), [(0, 0), (2, 4)])
def test_edits_are_put_down_and_free(model: Counting, block: int, step: int) -> None:
    run, seen = played(), list[list[int]]()
    model.denoise = lambda canvas, *rest: (seen.append(canvas.tolist()), model.inner.denoise(canvas, *rest))[1]  # type: ignore[attr-defined]
    found = go_on(model, run, Fork(block, step, edits=((2, 50), (7, 51))))
    start, own = behind(run, block)[0], [event for event in steps_of(found) if event.block_index == block]
    expected = (steps_of(behind(run, block))[step - 1].next_canvas if step else start.canvas).copy()  # type: ignore[union-attr]
    expected[[2, 7]] = 50, 51
    assert seen[step] == expected.tolist()
    begun = behind(found, block)[0]
    assert isinstance(begun, CanvasStarted)
    assert (begun.canvas.tolist() == expected.tolist()) is (step == 0)
    assert any(event.next_canvas[[2, 7]].tolist() != [50, 51] for event in own[step:])
    assert not begun.pinned_mask.any()


def test_settings_hold_from_the_fork_on(model: Counting) -> None:
    run = played()
    found = go_on(model, run, Fork(1, 2, settings=(("t_max", 2.0), ("t_min", 1.0), ("entropy_bound", 1000.0))))
    hot = CONFIG.replace(t_max=2.0, t_min=1.0)
    own = steps_of(found)
    assert [event.temperature for event in own] == [
        (hot if place >= 2 else CONFIG).temperature(place % 5) for place in range(10)
    ]
    assert all(event.accepted_mask.all() for event in own[2:])
    capped = go_on(model, run, Fork(1, 2, settings=(("max_denoising_steps", 3), ("max_new_tokens", 45))))
    assert [(event.block_index, event.steps) for event in commits(capped)] == [(1, 3), (2, 3), (3, 3), (4, 3)]
    calm = go_on(model, run, Fork(1, 2, settings=(("confidence_threshold", 50.0), ("stability_threshold", 0))))
    assert [(event.steps, event.reason) for event in commits(calm)] == [(3, "converged"), (1, "converged")]


def test_a_new_seed_repeats_and_differs(model: Counting) -> None:
    run = played()
    one, same, two = (go_on(model, run, Fork(1, 1, seed=seed)) for seed in (7, 7, 8))
    assert facts(one[1:]) == facts(same[1:])
    assert steps_of(one)[1].next_canvas.tolist() != steps_of(two)[1].next_canvas.tolist()
    assert facts(one[1:3]) == facts(two[1:3])


def test_a_change_behind_the_last_step_makes_the_block_go_on(model: Counting) -> None:
    run = played(UNEVEN)
    counts = [event.steps for event in commits(run)]
    block = next(at for at, count in enumerate(counts) if count < 9)
    found = go_on(model, run, Fork(block, counts[block], edits=((0, 9),)), config=UNEVEN)
    assert commits(found)[0].steps > counts[block]
    assert facts(steps_of(found)[: counts[block]]) == facts(steps_of(behind(run, block))[: counts[block]])  # type: ignore[arg-type]

    run = played()
    longer = go_on(model, run, Fork(1, 5, settings=(("max_denoising_steps", 7),)))
    assert [event.steps for event in commits(longer)] == [7, 7]
    with pytest.raises(SafelightError, match=r"block 2 ends after its 5 steps; .* set max_denoising_steps above 5"):
        go_on(model, run, Fork(1, 5, seed=3))


def test_a_fork_ends_at_an_end_token(model: Counting) -> None:
    run = played()
    config = CONFIG.replace(eos_token_ids=(111,), pad_token_id=6)
    assert not np.isin(111, run[-1].tokens)  # type: ignore[union-attr]
    found = go_on(model, run, Fork(1, 2, pinned=((4, 111),)), config=config)
    result = end_of(found)
    assert (result.reason, result.blocks, len(result.tokens)) == ("eos", 2, CANVAS + 4)
    assert (commits(found)[0].tokens[5:] == 6).all()
    assert result.tokens[:CANVAS].tolist() == commits(run)[0].tokens.tolist()
    done = commits(run)[:1] + commits(found)
    rows, counts = [event.tokens for event in done], [event.steps for event in done]
    with pytest.raises(SafelightError, match="the text ends in block 1; no block follows"):
        list(fork(model, PROMPT, config, SEED, rows, counts, [Fork(2, 0)]))


# --- forks of forks --------------------------------------------------------------------------------------------------

TREE = (
    Fork(0, 2, banned=(5, 6, 7), seed=77),
    Fork(0, 4, edits=((3, 9),), settings=(("entropy_bound", 2.0),)),
    Fork(1, 0, pinned=((0, 1),), seed=78),
    Fork(1, 3, pinned=((2, 8),), edits=((0, 30),)),
    Fork(2, 5, settings=(("max_denoising_steps", 7), ("max_new_tokens", 40))),
)


def grown(model: Any, cache: KVCache | None) -> list[Event]:
    """The last run of the tree; each before it is the one from its root, and goes on from any place."""
    run, changes = play(model, cache=cache), ()
    for change in TREE:
        changes = chain(changes, change)
        forked = go_on(model, run, *changes, cache=cache)
        whole = [*run[: run.index(behind(run, change.block)[0])], *forked[1:]] if change.block else forked
        rooted = list(fork(model, PROMPT, CONFIG, SEED, (), (), changes))
        assert facts(rooted[1:]) == facts(whole[1:])
        assert facts(rooted) != facts(run)
        run = rooted
        for place in places(run)[::17]:
            if place >= change.place:
                found = go_on(model, run, *chain(changes, Fork(*place)), cache=cache)
                assert facts(found[1:]) == facts(behind(run, place[0]))
    assert changes == TREE
    assert [event.steps for event in commits(run)] == [5, 5, 7, 7]
    return run


def test_every_run_of_a_tree_comes_from_its_root(model: Counting) -> None:
    run = grown(model, model.new_cache())
    last = [event for event in steps_of(run) if event.block_index == 1]
    assert all(event.next_canvas[0] == 1 for event in last[:3])
    assert any(event.next_canvas[0] != 1 for event in last[3:])  # the edit released it
    assert all(event.next_canvas[2] == 8 for event in last[3:])


def test_a_tree_by_programs() -> None:
    """The program's own draws are passed over, and a canvas goes on under other settings."""
    model = OnDevice(tame())
    run = grown(model, model.network.new_cache())
    own = [event for event in steps_of(run) if event.block_index == 1]
    assert all(event.next_canvas[2] == 8 == event.candidates[2] for event in own[3:])
    later = [event for event in steps_of(run) if event.block_index or event.step >= 2]
    assert not any(set(event.next_canvas.tolist()) & {5, 6, 7} for event in later)
    assert not any(set(event.candidates.tolist()) & {5, 6, 7} for event in later)


def test_a_chain_leaves_out_what_comes_behind() -> None:
    assert chain(TREE, Fork(1, 0)) == (*TREE[:3], Fork(1, 0))
    assert chain((), TREE[0]) == TREE[:1]


def test_a_fork_survives_json() -> None:
    for change in TREE:
        assert read(Fork, json.loads(json.dumps(plain(change))), "a fork") == change
    for raw in ({}, {"block": 1}, {"block": 1, "step": 0, "pinned": [[1]]}, {"block": 1, "step": 0, "banned": 3}):
        with pytest.raises(SafelightError):
            read(Fork, raw, "a fork")


# --- stopping and complaining ----------------------------------------------------------------------------------------


def test_a_fork_can_be_cancelled(model: Counting) -> None:
    run, flag = played(), threading.Event()
    done = commits(run)
    rows = [event.tokens for event in done]
    last = end_of(stopped(fork(model, PROMPT, CONFIG, SEED, rows, [5, 5, 5], [Fork(1, 3)], flag), flag, 7))
    assert (last.reason, last.blocks, last.steps) == ("cancelled", 2, 12)
    assert last.tokens.tolist() == np.concatenate(rows[:2]).tolist()
    early = go_on(model, run, Fork(2, 0), cancel=flag)
    assert [type(event) for event in early] == [GenerationFinished]
    assert early[0].blocks == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": -1, "step": 0}, "whole number between 0 and .*, not -1"),
        ({"pinned": ((1, 2), (1, 3))}, "names a position twice"),
        ({"pinned": ((1, 2),), "edits": ((1, 3),)}, "names a position twice"),
        ({"seed": 2**63}, "seed must be a whole number between"),
        ({"settings": (("top_k", 3),)}, "cannot change 'top_k', only entropy_bound"),
        ({"settings": (("t_min", 0.1), ("t_min", 0.2))}, "changes a setting twice"),
        ({"step": 6}, "block 1 took 5 steps; fork it at step 0 to 5, not 6"),
        ({"pinned": ((10, 1),)}, "pinned position 10 is outside the canvas of 10"),
        ({"edits": ((0, 128),)}, "edited has token id 128; the vocabulary has 128"),
        ({"banned": tuple(range(128))}, "every token is banned"),
        ({"banned": (4,), "pinned": ((0, 4),)}, "position 0 is pinned to token 4, which is banned"),
        ({"banned": (4,), "edits": ((0, 4),)}, "position 0 is edited to token 4, which is banned"),
        ({"settings": (("t_min", 2.0),)}, r"t_max \(0.8\) must not be below t_min"),
        ({"settings": (("max_denoising_steps", 2),)}, "block 2 ends after its 2 steps"),
        ({"settings": (("sampling_temperature", 2.0),)}, "a fork of this run cannot change sampling_temp"),
    ],
)
def test_changes_that_cannot_be_made(changes: dict[str, Any], message: str) -> None:
    model, cache, run = played_with_cache()
    with pytest.raises(SafelightError, match=message) as error:
        go_on(model, run, Fork(**{"block": 1, "step": 2} | changes), cache=cache)
    assert "\n" not in str(error.value)
    assert_goes_on(go_on(model, run, Fork(1, 1), cache=cache), run, 1)  # and nothing was harmed


def test_runs_that_cannot_be_forked_so(model: Counting) -> None:
    for changes, message in (
        ([Fork(1, 2), Fork(0, 2)], "must be in order"),
        ([Fork(0, 5, edits=((0, 1),)), Fork(1, 0)], "the run has no step 6 in block 1"),
    ):
        with pytest.raises(SafelightError, match=message):
            go_on(model, played(), *changes)
    row = np.zeros(CANVAS, dtype=np.int32)
    for rows, counts, message in (
        ([row[:-1]], [5], "block 1 has 9 tokens; the canvas there has 10"),
        ([row.repeat(2)], [5], r"block 0 has the shape \(20,\); the canvas has 10 tokens"),
        ([row + 500], [5], "block 0 has a token outside the vocabulary"),
        ([row], [], "there are 1 committed blocks and the steps of 0"),
        ([row], [0], "took at least one step"),
    ):
        with pytest.raises(SafelightError, match=message):
            list(fork(model, PROMPT, CONFIG, SEED, rows, counts, [Fork(1, 0)]))
