"""Forks of runs over masks: the run is repeated from its beginning, and changed before the passes that are named."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from engine import Fork, GenerationConfig, SafelightError, fork, generate
from engine.decoding import sub_blocks
from engine.events import CanvasStarted, Event, PrefillFinished, StepFinished
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import masked_network
from tests.engine.decoding.seen import commits, end_of, facts

SIZE, MASK, EOS, SEED = 5, 8, 7, 3
PROMPT = [1, 2, 3, 4, 5, 6, 1]  # not of whole blocks
BASE = GenerationConfig(
    canvas_length=SIZE, max_new_tokens=14, eos_token_ids=(), pad_token_id=0, max_denoising_steps=3, top_k=2
)
DRAWN = {"sampling_temperature": 1.0}
LLADA = BASE.replace(decoder="bidirectional", remasking="low_confidence_static")
SDAR = BASE.replace(decoder="block_causal", remasking="low_confidence_static")
REWRITING = SDAR.replace(remasking="low_confidence_dynamic", edit_probability=0.25)
FAST = BASE.replace(decoder="sub_blocks", accept_probability=0.5)
NEMOTRON = BASE.replace(decoder="masked_diffusion", accept_probability=0.5, max_denoising_steps=5)
CONFIGS = {
    "llada": LLADA,
    "llada drawn": LLADA.replace(remasking="random", **DRAWN),
    "sdar": SDAR.replace(repetition_penalty=1.3),
    "sdar drawn": SDAR.replace(remasking="entropy_bounded", entropy_bound=2.0, **DRAWN),
    "rewriting": REWRITING.replace(**DRAWN),
    "fast": FAST.replace(**DRAWN),
    "nemotron": NEMOTRON.replace(**DRAWN),
}


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_blocks, "PART", 2)


@cache
def _network() -> CausalNetwork:
    return masked_network(4, 2.0, depth=1)


@pytest.fixture
def network() -> CausalNetwork:
    return _network()


@cache
def played(network: CausalNetwork, config: GenerationConfig, seed: int = SEED) -> list[Event]:
    """A run that tests fork. Nobody changes it."""
    return list(generate(network, PROMPT, config, seed))


def steps(events: Sequence[Event], block: int) -> list[StepFinished]:
    return [event for event in events if isinstance(event, StepFinished) and event.block_index == block]


def forked(network: CausalNetwork, config: GenerationConfig, run: Sequence[Event], *changes: Fork) -> list[Event]:
    rows, counts = [event.tokens for event in commits(run)], [event.steps for event in commits(run)]
    return list(fork(network, PROMPT, config, SEED, rows, counts, changes))


def behind(events: Sequence[Event], block: int) -> list[Event]:
    """The events from a block on."""
    return [event for event in events if getattr(event, "block_index", block) >= block and not _is_prefill(event)]


def _is_prefill(event: Event) -> bool:
    return isinstance(event, PrefillFinished)


def tokens(events: Sequence[Event]) -> list[int]:
    end = end_of(events)
    return end.tokens.tolist()


def unwritten(run: Sequence[Event], block: int, step: int) -> list[int]:
    """The positions of a block that have no token before a step."""
    return [at for at, is_there in enumerate(steps(run, block)[step - 1].accepted_mask) if not is_there]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_fork_without_a_change_is_the_run_bit_for_bit(network: CausalNetwork, name: str) -> None:
    run = played(network, CONFIGS[name])
    assert len(commits(run)) == 3
    for block in range(3):
        found = forked(network, CONFIGS[name], run, Fork(block, 1))
        assert _is_prefill(found[0])
        assert facts(found[1:]) == facts(behind(run, block))


@pytest.mark.parametrize("name", CONFIGS)
def test_an_edited_token_stays_and_all_before_the_fork_is_the_same(network: CausalNetwork, name: str) -> None:
    config, made = CONFIGS[name], 0
    run = played(network, config)
    for block, done in enumerate(commits(run)):
        places = [(step, at) for step in range(1, done.steps) for at in unwritten(run, block, step)]
        for step, at in [(step, at) for step, at in places if block * SIZE + at < config.max_new_tokens][::5]:
            token = next(token for token in (2, 3) if token != done.tokens[at])
            found = forked(network, config, run, Fork(block, step, pinned=((at, token),)))
            assert facts(list(steps(found, block)[:step])) == facts(list(steps(run, block)[:step]))
            assert tokens(found)[: block * SIZE] == tokens(run)[: block * SIZE]
            assert tokens(found)[block * SIZE + at] == token
            assert all(event.next_canvas[at] == token for event in steps(found, block)[step:])
            made += 1
    assert made > 1


def test_a_token_at_a_run_s_first_step_is_on_its_first_canvas(network: CausalNetwork) -> None:
    for config in CONFIGS.values():
        found = forked(network, config, played(network, config), Fork(0, 0, edits=((3, 2),), pinned=((0, 6),)))
        start = next(event for event in found if isinstance(event, CanvasStarted))
        assert (start.canvas[[0, 3]].tolist(), start.pinned_mask.tolist()) == ([6, 2], [True] + [False] * 4)
        assert tokens(found)[0] == 6
        assert len(tokens(found)) == 14


def test_a_block_that_is_full_before_any_pass_has_a_step(network: CausalNetwork) -> None:
    cells = tuple(enumerate((3, 1, 2, 5, 6)))
    shifting = masked_network(4, 2.0, depth=1, shifts_masks=True)
    config = LLADA.replace(remasking="origin")
    found = list(fork(shifting, PROMPT, config, SEED, (), (), [Fork(block, 0, pinned=cells) for block in (0, 1)]))
    assert tokens(found)[: 2 * SIZE] == [3, 1, 2, 5, 6] * 2
    assert [done.steps for done in commits(found)[:2]] == [1, 1]
    for config in CONFIGS.values():
        run = played(network, config)
        found = forked(network, config, run, Fork(0, 0, pinned=cells))
        assert tokens(found)[:SIZE] == [3, 1, 2, 5, 6]
        assert [done.block_index for done in commits(found)] == [0, 1, 2]
        assert all(done.steps == len(steps(found, done.block_index)) > 0 for done in commits(found))


def test_only_what_is_pinned_cannot_be_rewritten(network: CausalNetwork) -> None:
    config = CONFIGS["rewriting"]
    run = played(network, config)
    replaced = {True: 0, False: 0}
    for seed in range(3):
        for is_pinned in replaced:
            cells = tuple((at, token) for at, token in enumerate((5, 5, 5, 5)))
            change = Fork(0, 1, seed=seed, pinned=cells if is_pinned else (), edits=() if is_pinned else cells)
            replaced[is_pinned] += tokens(forked(network, config, run, change))[:4] != [5, 5, 5, 5]
    assert replaced[True] == 0
    assert replaced[False] > 0


def test_what_is_committed_is_not_rewritten_behind_a_change() -> None:
    """The pins are at the end of one block of the model and the beginning of the next, which is being rewritten."""
    config = REWRITING.replace(remasking="sequential", edit_probability=0.5, max_denoising_steps=4)
    network = masked_network(0, 2.0, depth=1, mask_schedule="floor")
    run = played(network, config)
    pins = ((2, tokens(run)[SIZE + 2]), (3, 2))
    for step in range(1, commits(run)[1].steps):
        found = list(fork(network, PROMPT, config, SEED, (), (), [Fork(1, step, pinned=pins)]))
        assert tokens(found) == [token for done in commits(found) for token in done.tokens[: done.text_length]]
        assert tokens(found)[SIZE + 3] == 2


def test_an_end_among_what_is_written_ends_the_text_there(network: CausalNetwork) -> None:
    config = SDAR.replace(remasking="sequential", max_denoising_steps=5)
    end = next(token for token in range(MASK) if token not in tokens(played(network, config)))
    config = config.replace(eos_token_ids=(end,))
    run = played(network, config)
    assert unwritten(run, 0, 2) == [2, 3, 4]
    found = forked(network, config, run, Fork(0, 2, edits=((1, end),)))
    assert tokens(found) == tokens(run)[:1]
    assert found[-1].reason == "eos"  # type: ignore[union-attr]
    assert [done.steps for done in commits(found)] == [2]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_ban_and_settings_and_a_seed_hold_from_their_step_on(network: CausalNetwork, name: str) -> None:
    config = CONFIGS[name]
    run = played(network, config)
    banned = max(set(tokens(run)[SIZE:]), key=tokens(run)[SIZE:].count)
    found = forked(network, config, run, Fork(1, 0, banned=(banned,)))
    assert banned not in tokens(found)[SIZE + 3 :]  # up to three places are written ahead
    hot = Fork(1, 1, settings=(("sampling_temperature", 9.0),))
    found = forked(network, config, run, hot)
    assert facts(list(steps(found, 1)[:1])) == facts(list(steps(run, 1)[:1]))
    assert {event.temperature for event in (*steps(found, 1)[1:], *steps(found, 2))} == {9.0}
    texts = [tokens(forked(network, config, run, hot, Fork(1, 1, seed=seed))) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_settings_of_a_whole_fork_are_those_of_another_run(network: CausalNetwork) -> None:
    for config in (FAST, NEMOTRON, SDAR.replace(remasking="low_confidence_dynamic")):
        for name, value in (("accept_probability", 0.2), ("sampling_temperature", 0.7)):
            found = forked(network, config, played(network, config), Fork(0, 0, settings=((name, value),), seed=5))
            assert facts(found[1:]) == facts(played(network, config.replace(**{name: value}), 5)[1:])


def test_what_cannot_be_made_is_refused_in_a_line(network: CausalNetwork) -> None:
    config = CONFIGS["sdar"]
    run = played(network, config)
    rows, last = [event.tokens for event in commits(run)], commits(run)[2].steps
    for change, message in (
        (Fork(0, 1, settings=(("t_max", 1.0),)), "a fork of this run cannot change t_max, only sampling_temperature"),
        (Fork(1, 9, seed=1), "block 1 took"),
        (Fork(2, last, seed=1), f"the run has no step {last + 1} in block 3 to fork it at"),
        (Fork(0, 1, edits=((5, 1),)), "edited position 5 is outside the canvas of 5 tokens"),
        (Fork(0, 1, edits=((0, MASK),)), "position 0 is to be given the mask"),
        (Fork(0, 1, edits=((0, 1),), banned=(1,)), "position 0 is edited to token 1, which is banned"),
        (Fork(0, 1, banned=tuple(range(8))), "every token but the mask is banned"),
        (Fork(2, 1, pinned=((4, 1),)), "position 4 is behind the last token of this run"),
        (Fork(1, 0, pinned=((0, 9),)), "pinned has token id 9"),
    ):
        with pytest.raises(SafelightError, match=message) as refused:
            forked(network, config, run, change)
        assert "\n" not in str(refused.value)
    rows[0] = (rows[0] + 1) % 7
    with pytest.raises(SafelightError, match="block 1 does not come out here as it was recorded"):
        list(fork(network, PROMPT, config, SEED, rows, [3, 3, 3], [Fork(1, 0, seed=1)]))


def test_what_the_cache_holds_is_not_changed(network: CausalNetwork) -> None:
    """A block of the text lies behind the end of the prompt, so that it is in two blocks of the model."""
    config = SDAR.replace(max_denoising_steps=1)
    run = played(network, config)
    assert steps(run, 0)[0].accepted_mask.tolist() == [True] * 3 + [False] * 2
    token = next(token for token in (2, 3) if token != tokens(run)[0])
    with pytest.raises(SafelightError, match="position 0 was written and read before this step; fork it earlier"):
        forked(network, config, run, Fork(0, 2, edits=((0, token),)))
    assert tokens(forked(network, config, run, Fork(0, 2, edits=((3, token),))))[3] == token
    assert tokens(forked(network, config, run, Fork(0, 1, edits=((0, token),))))[0] == token  # not read yet
