"""The end of a run in words, and what was left unsure."""

from __future__ import annotations

import engine
from app.inspector.page import ANSWER
from app.inspector.story_words import doubts_in_words, end_in_words
from app.inspector.tabs import EndWords
from app.state.run.replay import Replay
from app.state.run.story import doubts_of
from engine import GenerationFinished
from tests.app.inspector.made_up import Recorded, run


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
