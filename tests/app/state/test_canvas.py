"""The reducers, held against plain loops over real runs."""

from __future__ import annotations

import numpy as np
import pytest

from app.state.run.canvas import BlockState, CanvasState, CellState
from app.state.run.stats import RunStats
from engine import CanvasCommitted, CanvasStarted, GenerationConfig, StepFinished

WHOLE = ("hot", "cold", "several blocks", "pinned")


def expected_state(steps: list[StepFinished], position: int, pinned: bool, calm: bool) -> CellState:
    """The rule of the docstring once more, for one position after the last of these steps."""
    now = steps[-1]
    before = steps[-2] if len(steps) > 1 else None
    if pinned:
        return CellState.GIVEN
    if now.accepted_mask[position]:
        settled = (
            before is not None
            and before.accepted_mask[position]
            and before.argmax_canvas[position] == now.argmax_canvas[position]
            and now.candidates[position] == now.argmax_canvas[position]
        )
        return CellState.SETTLED if settled else CellState.ACCEPTED
    if before is not None and before.accepted_mask[position]:
        return CellState.TAKEN_BACK
    return CellState.CANDIDATE if calm else CellState.NOISE


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("calm", [True, False])
def test_every_cell_of_every_step(runs, name, calm):
    state = CanvasState()
    seen: set[CellState] = set()
    for event in runs[name].events:
        state.fold(event)
        block = state.current
        if isinstance(event, CanvasStarted):
            steps: list[StepFinished] = []
            assert block.tokens(calm=calm).tolist() == event.canvas.tolist()
            wanted = [CellState.GIVEN if pinned else CellState.NOISE for pinned in event.pinned_mask]
            assert block.states(calm=calm).tolist() == wanted
            assert block.cell(0, calm).entropy is None
        if not isinstance(event, StepFinished):
            continue
        steps.append(event)
        for position in range(block.length):
            cell = block.cell(position, calm)
            assert cell.state == expected_state(steps, position, bool(block.pinned_mask[position]), calm)
            if event.accepted_mask[position]:
                assert cell.token == event.candidates[position]
            else:
                assert cell.token == (event.argmax_canvas if calm else event.next_canvas)[position]
            assert cell.entropy == pytest.approx(float(event.entropy[position]))
            seen.add(cell.state)
    assert (CellState.SETTLED if name == "cold" else CellState.TAKEN_BACK) in seen
    assert CellState.ACCEPTED in seen


def committed_block(text_length: int) -> BlockState:
    """Eight positions, all noise, then one step that accepts two, then one that accepts none, then the commit."""
    tokens = np.arange(8, dtype=np.int32)
    entropy = np.array([0, 1, 2, 3, 9, 9, 9, 9], dtype=np.float32)
    two = np.array([True, False, False, False, False, False, False, True])
    state = CanvasState.from_events(
        [
            CanvasStarted(0, tokens, np.zeros(8, dtype=np.bool_)),
            StepFinished(0, 0, 0.8, tokens, tokens, entropy, two, tokens, 0.5),
            StepFinished(0, 1, 0.7, tokens, tokens, entropy, np.zeros(8, dtype=np.bool_), tokens, 0.25),
            CanvasCommitted(0, tokens, text_length, 2, "step_cap"),
        ]
    )
    return state.blocks[0]


def test_padding_enters_no_statistic():
    whole, cut, empty = (committed_block(length) for length in (8, 4, 0))
    assert (whole.mean_entropy, cut.mean_entropy, empty.mean_entropy) == (pytest.approx(5.25), pytest.approx(1.5), None)
    assert (whole.taken_back_total, cut.taken_back_total, empty.taken_back_total) == (2, 1, 0)


@pytest.mark.parametrize("name", WHOLE)
def test_stats_agree_with_plain_sums(runs, name):
    events = runs[name].events
    stats = RunStats()
    for event in events:
        stats.fold(event)
        if isinstance(event, StepFinished):
            block = stats.canvases.current
            assert (block.step, block.temperature) == (event.step, event.temperature)
            assert block.accepted_count == int(event.accepted_mask.sum())
            assert block.mean_entropy == pytest.approx(float(event.entropy.mean()), rel=1e-5)
    finished, figures = events[-1], stats.figures
    assert figures.steps == sum(isinstance(event, StepFinished) for event in events)
    assert figures.tokens_per_forward == finished.tokens_per_forward
    assert figures.tokens_per_second == pytest.approx(len(finished.tokens) / finished.seconds)
    assert sum(block.steps for block in stats.canvases.blocks) == finished.steps
    assert sum(block.seconds for block in stats.canvases.blocks) == pytest.approx(stats.step_seconds)
    assert sum(block.committed for block in stats.canvases.blocks) == figures.blocks == finished.blocks


def test_only_what_is_newly_accepted_waits_and_the_surest_comes_first() -> None:
    entropy = np.array([0.5, 0.1, 0.9, 0.2], np.float32)
    noise, canvas = np.array([9, 9, 9, 9], np.int32), np.array([1, 2, 3, 4], np.int32)
    nothing, all_but_one = np.zeros(4, np.bool_), np.array([True, True, False, True])
    state = CanvasState.from_events(
        [
            CanvasStarted(0, noise, nothing),
            StepFinished(0, 0, 1.0, canvas, canvas, entropy, np.array([True, False, False, False]), noise, 0.1),
            StepFinished(0, 1, 1.0, canvas, canvas, entropy, all_but_one, canvas, 0.1),
        ]
    )
    block = state.blocks[0]
    seen = [block.partly(share) for share in (0.0, 0.5, 1.0)]
    assert [one.shown.tolist() for one in seen] == [[1, 9, 3, 9], [1, 2, 3, 9], [1, 2, 3, 4]]
    assert [one.accepted_count for one in seen] == [1, 2, 3]
    assert seen[0].states(calm=False)[1] == CellState.NOISE
    assert seen[0].states(calm=True)[1] == CellState.CANDIDATE
    assert seen[2] is block
    state.fold(CanvasCommitted(0, canvas, 4, 2, "converged"))
    assert block.partly(0.0) is block


def test_pinned_end_tokens_behind_everything_else_are_padding() -> None:
    canvas, pinned = np.array([1, 5, 6, 1, 1], np.int32), np.array([True, True, False, True, True])
    state = CanvasState.under(GenerationConfig(eos_token_ids=(1,)))
    state.fold(CanvasStarted(0, canvas, pinned))
    given, noise, padding = CellState.GIVEN, CellState.NOISE, CellState.PADDING
    assert state.blocks[0].states(calm=True).tolist() == [given, given, noise, padding, padding]
