"""Two runs side by side: their choice, their differences in words, and going through them in step."""

from __future__ import annotations

import dataclasses

import pytest
from PySide6.QtCore import Qt

from app.inspector.compare import view as compare_view
from app.inspector.compare.view import Compare
from app.inspector.page import InspectorPage
from app.inspector.run_cards import Offer
from app.inspector.words import asked_in_words
from app.state.run.canvas import CanvasState
from app.state.run.comparison import differing
from app.state.run.replay import NOISE, Frame
from engine import Fork, Parent
from tests.app.inspector.made_up import (
    END,
    PAD,
    STEPS,
    Recorded,
    asked,
    committed,
    run,
    started,
    step_event,
)

PARENT = asked()
FORK = asked(parent=Parent(PARENT.id, 1, 3))
PINNED = dataclasses.replace(FORK, changes=(Fork(1, 3, pinned=((6, 2),)),))


@pytest.fixture
def page(page: InspectorPage, monkeypatch: pytest.MonkeyPatch) -> InspectorPage:
    monkeypatch.setattr(compare_view, "SLICE_SECONDS", 60.0)  # all at once
    page.open_trace(Recorded(run()), 0)
    page.show_view(1)
    return page


@pytest.fixture
def compare(page) -> Compare:
    return page.compare


def parted_at(block: int, step: int) -> list:
    """Returns ``run`` with another noise at one step."""
    events = run()
    place = next(i for i, e in enumerate(events) if getattr(e, "step", None) == step and e.block_index == block)
    was = events[place]
    events[place] = step_event(
        step, was.argmax_canvas, was.candidates, was.accepted_mask, block=block, noise=was.next_canvas ^ 1
    )
    return events


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (asked(7), asked(7), "The same model, prompt, seed and settings."),
        (asked(7), asked(7, prompt="Count"), "What differs: the prompt."),
        (asked(7), asked(8, adapter="Sudoku", top_k=4), "What differs: adapter: none and Sudoku; seed: 7 and 8."),
        (
            asked(pinned=((0, 5),)),
            asked(entropy_bound=0.4, prompt="Count"),
            "What differs: the prompt; entropy bound: 0.1 nats and 0.4 nats; pinned cells: 1 and 0.",
        ),
        (asked(), asked(thinking_tokens=40), "What differs: thinking: no limit and 40 tokens."),
        (
            asked(),
            asked(remasking="sequential"),
            "What differs: remasking: low_confidence_dynamic and sequential.",
        ),
        (FORK, PARENT, "The left run goes on from the right one at block 2, step 4."),
        (PARENT, FORK, "The right run goes on from the left one at block 2, step 4."),
        (PARENT, PINNED, "left one at block 2, step 4: position 6 pinned to 'c'."),
    ],
)
def test_differences_in_words(left, right, said):
    assert asked_in_words(left, right, "abc".__getitem__).endswith(said)


def test_behind_the_end_it_makes_no_difference_which_token_says_so():
    def state(*tokens: int):
        return CanvasState.from_events([started(4), committed(tokens, 2, 0)]).blocks[-1]

    one, other = state(5, END, PAD, PAD), state(5, END, END, 6)
    assert differing(one, other, calm=True).tolist() == [False, False, True, True]
    assert differing(one, other, calm=True, no_text=(END, PAD)).tolist() == [False, False, False, True]


def test_without_another_run_those_to_choose_from_are_shown(page, compare, qtbot):
    assert compare.currentWidget() is compare.chooser
    assert not compare.chooser.back.isVisible()
    page.show_view(0)
    with qtbot.waitSignal(compare.wanted):
        page.show_view(1)
    compare.chooser.runs.offer([Offer("Seed 8", "now", "a", "The same prompt"), Offer("A word", "", "b", "Gallery")])
    assert [card.accessibleName() for card in compare.chooser.runs.cards] == [
        "Compare with Seed 8",
        "Compare with A word",
    ]
    with qtbot.waitSignal(compare.chooser.runs.chosen) as chosen:
        qtbot.mouseClick(compare.chooser.runs.cards[0], Qt.MouseButton.LeftButton)
    assert chosen.args == ["a"]


def test_nothing_is_read_while_it_is_not_seen(page, compare):
    page.show_view(0)
    compare.set_other(Recorded(run(), header=asked(8)))
    page.player.go(3)
    assert compare.other.trace is None
    page.show_view(1)
    assert compare.other.place == 3


def test_both_go_through_the_steps_together(page, compare):
    compare.set_other(Recorded(run(seed=5), header=asked(8)))
    for place in range(len(page.player.replay.frames)):
        page.player.go(place)
        assert compare.other.frame == page.player.frame
        left, right = compare.left.view, compare.right.view
        assert left.block.shown.tolist() == page.player.snapshot.shown.tolist()
        assert right.block.shown.tolist() == compare.other.snapshot.shown.tolist()
        wanted = page.player.snapshot.tokens(calm=False) != compare.other.snapshot.tokens(calm=False)
        assert left.marks.tolist() == right.marks.tolist() == wanted.tolist()
        assert left.grid.cell_width == right.grid.cell_width
        assert left.grid.columns == right.grid.columns
    page.player.select(9)
    page.player.point(3)
    assert (left.selected, left.hovered) == (right.selected, right.hovered) == (9, 3)
    assert compare.left.title.toolTip() == "made-up, seed 7"
    assert compare.right.title.toolTip() == "made-up, seed 8"
    assert compare.asked.text() == "What differs: seed: 7 and 8."


def test_the_first_divergence_is_said_and_gone_to(page, compare):
    compare.set_other(Recorded(parted_at(1, 2), header=asked(7)))
    assert "They first differ at block 2, step 3." in compare.facts.text()
    compare.diverge.click()
    assert page.player.frame == Frame(1, 2)
    compare.set_other(Recorded(run(seed=5), header=asked(8)))
    assert "They first differ in the noise of block 1." in compare.facts.text()
    compare.diverge.click()
    assert page.player.frame == Frame(0, NOISE)


def test_the_first_divergence_of_long_runs_is_looked_for_in_slices(page, compare, qtbot, monkeypatch):
    monkeypatch.setattr(compare_view, "SLICE_SECONDS", 0.0)  # one frame a slice
    compare.set_other(Recorded(parted_at(1, 2), header=asked(7)))
    assert compare.facts.text() == "No cell differs here. Looking for the first difference…"
    assert not compare.diverge.isEnabled()
    page.player.go(1)  # meanwhile everything else can be done
    assert "Looking for" in compare.facts.text()
    qtbot.waitUntil(lambda: "They first differ at block 2, step 3." in compare.facts.text())
    assert compare.diverge.isEnabled()


def test_a_run_that_has_ended_earlier_stays_at_its_end(page, compare):
    compare.set_other(Recorded(run(blocks=1)))
    assert "same as far as both go; the left one goes on" in compare.facts.text()
    compare.diverge.click()
    assert page.player.frame == Frame(1, NOISE)
    assert compare.right.view.block is None
    assert compare.right.where.toolTip() == "This run has no block 2."
    page.player.go(1)
    assert compare.right.view.block is not None


def test_a_running_run_is_compared_as_it_grows(page, compare, qtbot):
    events, trace = parted_at(1, 2), Recorded([])
    page.follow_live(trace)
    compare.set_other(Recorded(run()))
    for count in range(1, len(events) + 1):
        trace.append(events[count - 1])
        page.refresh()
        qtbot.waitUntil(lambda: len(page.player.replay.frames) == len(trace.events))
        said = compare.facts.text()
        parted = count > 2 * (STEPS + 2) - 2 - 1  # the step 2 of the second block is there
        assert ("first differ at block 2, step 3" in said) == parted, (count, said)
        assert ("the right one goes on" in said) == (not parted)
    page.run_ended()
    assert "in progress" not in page.facts.toolTip()
