"""Each step and the end of a run in words, unsure tokens, and going from event to event."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

import engine
from app.inspector.page import ANSWER, InspectorPage
from app.inspector.story_words import caption, doubts_in_words, end_in_words
from app.inspector.tabs import EndWords
from app.state.run.canvas import CellState
from app.state.run.replay import Replay
from app.state.run.story import doubts_of, in_doubt, moment
from engine import CanvasStarted, Event, GenerationFinished, Recording
from tests.app.inspector.made_up import Recorded, committed, run, started, step_event

F, G, END = 5, 6, 1  # "f", "g" and the end


def life(reason: str = "converged") -> list[Event]:
    """Four cells, the last the end: cell 0 is taken back and comes again, cell 1 is taken back and becomes another."""
    rows = [
        ((F, F, F, END), (True, True, False, True)),
        ((F, F, F, END), (False, False, False, True)),
        ((F, G, F, END), (True, False, False, True)),
        ((F, G, F, END), (True, True, False, True)),
        ((F, G, F, END), (True, True, True, True)),
        ((F, G, F, END), (True, True, True, True)),
    ]
    steps = [step_event(step, tokens, tokens, accepted) for step, (tokens, accepted) in enumerate(rows)]
    return [started(4), *steps, committed((F, G, F, END), 3, len(rows), reason=reason)]


def said(trace: Recording) -> list[str]:
    replay = Replay(trace)
    return [caption(replay.record(frame.block), frame, trace).text for frame in replay.frames]


def test_each_step_is_described_from_its_events() -> None:
    assert said(Recorded(life())) == [
        "Block 1 begins: a random token in each of 4 cells.",
        "Step 1: 2 of 3 cells are accepted at once.",
        "Step 2: 2 cells are taken back: “f”.",
        "Step 3: “f” is accepted again.",
        "Step 4: “f” becomes “g”.",
        "Step 5: 1 cell is newly accepted; now all are.",
        "Step 6: every cell is settled.",
        "Block 1 ends early, after 6 of 48 steps: no guess changes any more, and it is sure.",
    ]


def test_a_replaced_token_of_a_block_with_masks_is_taken_back_and_becomes_another() -> None:
    """The first cell is written, and replaced by the pass that writes the last one."""
    mask, empty = 25, np.zeros(4, dtype=np.bool_)
    rows = [((F, G, F, mask), (True, True, True, False)), ((G, G, F, END), (True,) * 4), ((G, G, F, END), (True,) * 4)]
    steps = [
        step_event(step, tokens, tokens, accepted, noise=mask, entropy=(0.1 + step,) * 4)
        for step, (tokens, accepted) in enumerate(rows)
    ]
    start = CanvasStarted(0, np.full(4, mask, dtype=np.int32), empty, mask)
    trace = Recorded([start, *steps, committed((G, G, F, END), 3, len(rows))])
    assert said(trace) == [
        "Block 1 begins: nothing is written yet.",
        "Step 1: “f”, “g” and “f” are written.",
        "Step 2: “f” becomes “g”.",
        "Step 3: nothing is written.",
        "Block 1 is written, after 3 passes.",
    ]
    record = Replay(trace).record(0)
    states = [snapshot.states(calm=True)[0] for snapshot in record.snapshots[1:]]
    assert states == [CellState.ACCEPTED, CellState.TAKEN_BACK, CellState.SETTLED, CellState.SETTLED]
    assert record.taken_back.sum(axis=0).tolist() == record.snapshots[-1].times_taken_back.tolist() == [1, 0, 0, 0]
    assert record.settled_at.tolist() == [1, 0, 0, 1]
    assert np.allclose(record.entropy[-1], [1.1, 0.1, 0.1, 1.1])  # of the pass that predicted the token last
    assert np.allclose(record.entropy, [snapshot.entropy for snapshot in record.snapshots[1:4]])


def test_padding_has_no_part_and_an_unsure_end_says_so() -> None:
    trace = Recorded([*life()[:4], committed((F, G, F, END), 3, 3, reason="step_cap")])
    record = Replay(trace).record(0)
    assert (moment(record, 0).counted, moment(record, 0).accepted, in_doubt(record)) == (3, 2, 2)
    assert said(trace)[-1] == "Block 1 is stopped at the limit of 3 steps, with 2 unsure cells."


def test_the_words_follow_the_step_and_events_are_gone_to(page: InspectorPage, qtbot: QtBot) -> None:
    page.open_trace(Recorded(life()), 0)
    page.overview.finish()
    assert page.captions.text.accessibleName() == "Block 1 begins: a random token in each of 4 cells."
    page.player.go(5)
    assert page.captions.text.accessibleName().startswith("Step 5: ")
    qtbot.keyClick(page, Qt.Key.Key_N, Qt.KeyboardModifier.ShiftModifier)
    assert (page.player.frame.step, page.player.selection) == (1, 0)
    page.captions.on.click()
    assert page.player.frame.step == 6
    assert page.captions.text.accessibleName().startswith("Block 1 ends early")
    page.captions.on.click()  # behind the last there is none
    assert page.player.frame.step == 6
    page.close_trace()
    assert page.captions.text.accessibleName() == ""


def test_a_run_of_the_gallery_says_how_it_ended(page):
    entry = next(one for one in engine.gallery() if "settle" in one.title)
    trace = engine.open_trace(entry.path)
    page.side.setCurrentIndex(ANSWER)
    page.open_trace(trace)
    page.overview.finish()
    said = page.findChild(EndWords).words.text()
    assert "wrote its end. 4 tokens were left unsure: '5' (or '3', 27.7 %)" in said
    assert page.facts.text().endswith("finished · 4 unsure tokens")
    page.open_trace(Recorded(run()))  # which did not end
    assert page.findChild(EndWords).words.text() == ""
    record = Replay(trace).record(0)
    found = doubts_of(record)
    assert {doubt.token for doubt in found} <= set(record.final.tolist())
    assert {doubt.share for doubt in found} <= set(record.top_probabilities[-1, :, 1].tolist())


def test_ends_in_words():
    assert "cut at the limit" in end_in_words(GenerationFinished("length", (), 1, 1, 1.0))
    cut = GenerationFinished("length", (), 1, 1, 1.0, "it no longer fits its format")
    assert end_in_words(cut) == "The text is not finished: it no longer fits its format."
    assert "stopped" in end_in_words(GenerationFinished("cancelled", (), 1, 1, 1.0))
    assert end_in_words(None) == ""
    assert doubts_in_words((), str) == "No token was left unsure."
