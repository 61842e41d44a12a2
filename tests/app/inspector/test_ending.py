"""How a run ended, and what was left unsure."""

from __future__ import annotations

import pytest

import engine
from app.design import motion
from app.inspector.page import ANSWER, InspectorPage
from app.inspector.story_words import doubts_in_words, end_in_words
from app.inspector.tabs import EndWords
from app.state.run.replay import Replay
from app.state.run.story import doubts_of
from engine import GenerationFinished
from tests.app.inspector.made_up import Recorded, run


@pytest.fixture
def page(qtbot) -> InspectorPage:
    motion.set_reduced(True)
    page = InspectorPage()
    qtbot.addWidget(page)
    page.resize(1400, 900)
    page.show()
    page.side.setCurrentIndex(ANSWER)
    return page


def test_a_run_of_the_gallery_says_how_it_ended(page):
    entry = next(one for one in engine.gallery() if "settle" in one.title)
    trace = engine.open_trace(entry.path)
    page.open_trace(trace)
    page.overview.finish()
    said = page.findChild(EndWords).words.text()
    assert "wrote its end. 4 tokens were left unsure: '5' (or '3', 27.7 %)" in said
    assert page.facts.text().endswith("finished · 4 unsure tokens")
    record = Replay(trace).record(0)
    found = doubts_of(record)
    assert {doubt.token for doubt in found} <= set(record.final.tolist())
    assert {doubt.share for doubt in found} <= set(record.top_probabilities[-1, :, 1].tolist())


def test_a_run_that_did_not_end_says_nothing_of_its_end(page):
    page.open_trace(Recorded(run()))
    page.overview.finish()
    assert page.findChild(EndWords).words.text() == ""


def test_ends_in_words():
    assert "cut at the limit" in end_in_words(GenerationFinished("length", (), 1, 1, 1.0))
    cut = GenerationFinished("length", (), 1, 1, 1.0, "it can no longer be held to its format")
    assert end_in_words(cut) == "The text is not finished: it can no longer be held to its format."
    assert "stopped" in end_in_words(GenerationFinished("cancelled", (), 1, 1, 1.0))
    assert end_in_words(None) == ""
    assert doubts_in_words((), str) == "No token was left unsure."
