"""The order of settling in words and over the steps; how a turn ended, and what it left in doubt."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt

import engine
from app.design import motion, themes
from app.design.tokens import PAPER
from app.inspector.page import ANSWER, InspectorPage
from app.inspector.story_words import doubts_in_words, end_in_words
from app.inspector.timeline.order import OrderWords
from app.state.run.settling import RunOrder
from engine import GenerationFinished
from tests.app.inspector.made_up import THOUGHT_PIECES, Recorded, run, thought_run


@pytest.fixture
def page(qtbot) -> InspectorPage:
    motion.set_reduced(True)
    page = InspectorPage()
    qtbot.addWidget(page)
    page.resize(1400, 900)
    page.show()
    return page


@pytest.fixture
def view(page) -> OrderWords:
    page.side.setCurrentIndex(ANSWER)
    return page.answer.order


def test_the_order_of_a_thought_and_its_answer(page, view):
    page.open_trace(Recorded(thought_run(), THOUGHT_PIECES))
    page.overview.finish()
    assert view.words.text() == (
        "The answer settled at step 3, before 60.0 % of the thought. It settled from left to right, weakly (0.28)."
    )
    assert view.end.text() == (
        "The text is finished: the model wrote its end. 1 token was left unsure: 'j' (or 'm', 30.0 %)."
    )
    assert page.facts.text().endswith("finished · 1 unsure token")


def test_a_run_of_the_gallery_says_how_it_ended(page, view):
    entry = next(one for one in engine.gallery() if "settle" in one.title)
    page.open_trace(engine.open_trace(entry.path))
    page.overview.finish()
    assert view.words.text().startswith("It settled in no direction")
    assert "wrote its end. 4 tokens were left unsure: '5' (or '3', 27.7 %)" in view.end.text()


def test_the_plots_are_its_figures_and_their_mark_follows(page, qtbot):
    page.side.setCurrentIndex(ANSWER)
    page.open_trace(Recorded(thought_run(), THOUGHT_PIECES), 0)
    page.overview.finish()
    plots = page.answer.plots
    themes.publish(PAPER)
    plots.draw()
    _, counts, _, places = plots._rows
    *_, count = counts.listDataItems()
    assert count.yData[:-1].tolist() == page.overview[0].order.counts.tolist()
    answer, thought, _ = places.listDataItems()
    assert (len(answer.xData), len(thought.xData)) == (8, 10)  # the channel's own tokens beside the answer's six
    page.player.go(4)
    assert plots.sheet._mark == plots.sheet.pixel(3)
    assert plots.words_at(3)[-2:] == ["7 cells settle", "Their centre: 0.76, from 0 left to 1 right"]
    qtbot.mouseClick(plots.sheet, Qt.MouseButton.LeftButton, pos=QPoint(round(plots.sheet.pixel(6)), 40))
    assert page.player.place == 7


def test_a_run_that_did_not_end_says_nothing_of_its_end(page, view):
    page.open_trace(Recorded(run()))
    page.overview.finish()
    assert view.end.text() == ""
    page.open_trace(Recorded([]))
    assert view.words.text() == "No step was taken yet."


def test_ends_in_words():
    assert "cut at the limit" in end_in_words(GenerationFinished("length", (), 1, 1, 1.0))
    cut = GenerationFinished("length", (), 1, 1, 1.0, "it can no longer be held to its format")
    assert end_in_words(cut) == "The text is not finished: it can no longer be held to its format."
    assert "stopped" in end_in_words(GenerationFinished("cancelled", (), 1, 1, 1.0))
    assert end_in_words(None) == ""
    assert doubts_in_words(RunOrder([], str), str) == "No token was left unsure."
