"""Decisions and runs that fit a format, in the inspector: views, words, lists, and what is not offered."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.design import themes
from app.design.tokens import PAPER
from app.inspector.controller import InspectorController, build
from app.inspector.page import InspectorPage
from app.inspector.run_catalog import KeptRuns, first_offers
from app.player.player import NOTHING
from app.server import words
from app.state.run.answers import answers_of
from app.state.run.replay import Frame
from engine import SafelightError, SlotsRead, Trace
from engine.server.live import LiveRequest
from engine.service import InfillRun
from tests.app.canvas.pointing import middle, move
from tests.engine.task_runs import FORMAT, QUESTIONS, decided, decision_header, structured
from tests.engine.traces import header, write

DECIDED = decision_header()
STRUCTURED = header(16, 50, output_format=FORMAT)
LABELS = dict(enumerate(["yes", "no", "A", "B", "C", "0", "1", "2", "3"], start=11))


def trace_of(head=STRUCTURED, events=None) -> Trace:
    trace = Trace(header=head, piece=lambda token: LABELS.get(token, chr(ord("a") + token % 26)))
    for event in events if events is not None else decided(head) if head.decision else structured():
        trace.append(event)
    return trace


def tabs(page: InspectorPage) -> list[str]:
    return [page.side.tabText(place) for place in range(page.side.count()) if page.side.isTabVisible(place)]


def test_a_decision_shows_what_was_asked_and_nothing_that_makes_no_sense_of_it(page: InspectorPage) -> None:
    page.open_trace(trace_of(DECIDED))
    assert page.title.text() == "Is it late? · Which colour? · How warm?"
    assert page.facts.text() == "Decision · made-up · seed 0 · 3 questions together, 3 reads"
    assert tabs(page) == ["Cell", "Answer"]
    assert page.side.currentWidget() is page.answer
    for said in ("It is ten.", "Be brief.", "2. Which colour?\n    red: as a brick\n    green", "2 times"):
        assert said in page.answer.task.text.toPlainText()
    assert page.answer.answers.isVisible()
    assert not page.answer.plots.isVisible()
    page.open_trace(trace_of())
    assert tabs(page) == ["Cell", "Change", "Answer"]
    shown = page.answer.task, page.answer.plots, page.answer.ending, page.answer.answers
    assert [part.isVisible() for part in shown] == [True, True, True, False]
    page.open_trace(trace_of(header(16, 50)))
    assert tabs(page) == ["Cell", "Change", "Answer"]
    assert [part.isVisible() for part in shown] == [False, True, True, False]


def test_each_question_has_its_answer_after_the_reads_so_far(page: InspectorPage) -> None:
    trace = trace_of(DECIDED)
    page.open_trace(trace, 0)
    rows, reads = page.answer.answers.rows, [event for event in trace.events if isinstance(event, SlotsRead)]
    assert [row.said.text() for row in rows] == ["Not read yet"] * 3
    assert "random tokens in the answer slots" in page.answer.answers.summary.text()
    for place in (1, 5, 3, 0, 2):  # forwards and backwards
        page.player.go(place)
        count = place // 2 + place % 2
        found = answers_of(trace.header.decision, reads[:count]) if count else ()
        for row, answer in itertools.zip_longest(rows, found):
            if answer is None:
                assert row.said.text() == "Not read yet"
                continue
            name = answer.question.options[answer.best].name
            assert name in row.said.text()
            share = f"{name}: {100 * answer.probabilities[answer.best]:.1f} %"
            assert share in row.bars.accessibleDescription()
            assert f"{100 * answer.label_mass:.1f} % of all probability on the options" in row.facts.text()
            assert f"confidence {100 * answer.confidence:.1f} %" in row.facts.text()
            assert ("none of the options" in row.facts.text()) != answer.argmax_is_label
            assert (f"of {count} reads" in row.facts.text()) == (count > 1)
    page.player.go(5)
    page.resize(1200, 1600)
    assert all(row.height() == row.heightForWidth(row.width()) for row in rows)  # none is stretched
    assert page.answer.answers.summary.text().startswith("After 3 of 3 reads")
    themes.publish(PAPER)
    page.grab()


def test_a_slot_and_its_question_light_each_other(page: InspectorPage, qtbot: QtBot) -> None:
    page.open_trace(trace_of(DECIDED))
    slots, rows, view = [slot.position for slot in DECIDED.slots], page.answer.answers.rows, page.canvas.view

    def lit() -> list[bool]:
        return [bool(row.property("lit")) for row in rows]

    move(view, middle(view, slots[1]))
    assert lit() == [False, True, False]
    assert "Slot of question 2" in view.cell_text(slots[1])
    view.hovered = -1
    assert lit() == [False] * 3
    rows[2].pointed.emit(True)
    assert (page.player.hover, view.hovered, lit()) == (slots[2], slots[2], [False, False, True])
    rows[2].pointed.emit(False)
    assert page.player.hover == NOTHING
    qtbot.mouseClick(rows[0], Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert page.player.selection == view.selected == slots[0]
    assert lit() == [True, False, False]


def test_the_transport_goes_from_read_to_read(page: InspectorPage, qtbot: QtBot) -> None:
    page.open_trace(trace_of(DECIDED), 0)
    page.overview.finish()
    timeline = page.transport.timeline
    assert timeline.maximum() == 5
    assert page.transport.frame.text() == "Read 1 of 3, before its step: noise at the slots"
    qtbot.keyClick(page, Qt.Key.Key_Right)
    assert page.transport.frame.text() == "Read 1 of 3, one denoising step"
    assert timeline.words_at(5) == "Read 3 of 3, one denoising step"
    qtbot.keyClick(page, Qt.Key.Key_N)
    assert page.player.frame == Frame(1, 0)
    assert page.captions.caption.text.startswith("Read 2: Is it late? ")
    qtbot.keyClick(page, Qt.Key.Key_End)
    assert page.player.frame == Frame(2, 0)
    assert not page.transport.key.isVisible()


def test_a_decision_of_a_server_has_answers_and_no_canvas(page: InspectorPage) -> None:
    read = next(event for event in decided(DECIDED) if isinstance(event, SlotsRead))
    page.open_trace(trace_of(dataclasses.replace(DECIDED, slots=()), [read]))
    assert "no canvas" in page.answer.answers.summary.text()
    assert all("Not read" not in row.said.text() for row in page.answer.answers.rows)
    assert not page.transport.isEnabled()
    page.grab()


def test_rounds_are_listed_followed_and_gone_to(page: InspectorPage, qtbot: QtBot) -> None:
    page.open_trace(trace_of(), 0)
    page.overview.finish()
    rounds = page.answer.task.rounds
    assert [rounds.item(row).text() for row in range(rounds.count())] == [
        "Round 1: 2 tokens hold, 2 set by the format",
        "Round 2: 7 tokens hold; of the 5 new ones the model wrote 3",
        "Round 3: 16 tokens hold; of the 9 new ones the model wrote 8",
    ]
    assert '"integer"' in page.answer.task.text.toPlainText()
    seen = []
    for _ in range(5):
        seen.append(rounds.currentRow())
        qtbot.keyClick(page, Qt.Key.Key_Right)
    assert seen == [-1, 0, 1, 1, 2]
    rounds.itemClicked.emit(rounds.item(1))
    assert page.player.frame == Frame(0, 1)
    assert page.transport.frame.text() == "Block 1, step 2 of 3, round 2, temperature 0.50"
    qtbot.keyClick(page, Qt.Key.Key_N)
    assert page.player.frame == Frame(0, 3)  # the next round begins with the commit
    assert page.captions.caption.text.startswith("Round 3: 16 tokens hold")
    said = {}
    for position in (1, 3, 5):
        page.player.select(position)
        said[position] = page.cell.history.sentence.text()
    assert "pinned from step 1 on," in said[1]
    assert "pinned from step 2 on, as it fits" in said[3]
    assert "as it fits" not in said[5]


def test_neither_is_gone_on_from(open_context: Callable[..., AppContext], qtbot: QtBot) -> None:
    inspector: InspectorController = build(open_context())
    qtbot.addWidget(inspector.widget)
    for head, why in ((DECIDED, "read, not written"), (STRUCTURED, "had to fit a format")):
        trace = trace_of(head)
        inspector.page.open_trace(trace)
        assert why in inspector.continuations.refusal("forks")
        assert why in inspector.forks.run.toolTip()
        assert not inspector.forks.run.isEnabled()
        assert why in inspector.forks.spans.run.toolTip()
        with pytest.raises(SafelightError, match=r"no text to fork|format cannot be|fit a format"):
            InfillRun.of(trace, (), 1)
    assert inspector.continuations.needed() is None
    assert "read, not written" not in inspector.continuations.refusal("measures")  # influence can be measured


def test_a_served_request_says_what_it_is() -> None:
    request = LiveRequest("1", "/v1/chat/completions", "tiny", 0.0, trace=trace_of())
    assert words.request_facts(request).startswith("Fits a JSON schema · tiny")
    assert words.request_facts(dataclasses.replace(request, trace=None)).startswith("tiny")
    passed_over = dataclasses.replace(request, ignored=("top_p", "user"))
    assert words.request_facts(passed_over).endswith("· not used: top_p, user")
    assert words.endpoint_name("/v1/decisions") == "Decision"


def test_lists_name_the_kind(tmp_path: Path) -> None:
    model = dataclasses.replace(DECIDED.model, canvas_length=0)  # a server's, without a canvas
    reads = [event for event in decided(DECIDED) if isinstance(event, SlotsRead)]
    write(tmp_path / "d.sltrace", reads, dataclasses.replace(DECIDED, slots=(), model=model))
    write(tmp_path / "f.sltrace", structured(), STRUCTURED)
    kept = KeptRuns(tmp_path)
    offers = {Path(offer.key).stem: offer for offer in first_offers([], list(kept.headers(kept.newest())))}
    assert all(question.instructions in offers["d"].title for question in QUESTIONS)
    assert offers["d"].hint.startswith("Decision · ")
    assert offers["f"].hint.startswith("Fits a JSON schema · ")
