"""The Decisions page in the real window with the real embedded model: a state, a table, its calibration, files."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from pytestqt.qtbot import QtBot

from app.context import DECISIONS
from app.decisions.controller import DecisionsController
from app.state.decisions.samples import sample_table, samples
from app.state.decisions.sheet import QuestionSheet
from app.window.main_window import MainWindow
from engine import DECIDER, SIGHT
from engine.catalog import EMBEDDED
from engine.tasks import drawings
from engine.tasks.decisions.questions import YesNo

RUN_MS = 180_000
ROWS = 60


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    window = window_with(DECIDER)
    window.show_page(DECISIONS)
    return window


@pytest.fixture
def page(window: MainWindow) -> DecisionsController:
    found = window.pages[DECISIONS]
    assert isinstance(found, DecisionsController)
    return found


def idle(qtbot: QtBot, page: DecisionsController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy, timeout=RUN_MS)


def test_a_state_is_decided_singly_jointly_and_inspected(
    qtbot: QtBot, window: MainWindow, page: DecisionsController
) -> None:
    one = page.page.one
    assert one.column.state.toPlainText() == samples()[0].state
    one.column.repeats.setValue(2)
    one.column.joint.setChecked(False)
    one.questions.show_sheet(QuestionSheet(one.questions.sheet.questions[:1], repeats=2))
    qtbot.keyClick(one.column.state, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    idle(qtbot, page)
    (card,) = one.questions.cards
    answer = card.bars.answer
    assert answer is not None
    assert sum(answer.probabilities) == pytest.approx(1.0)
    assert card.facts.text() != ""
    assert list(one.strip.slots) == [0]  # a single question's is the first token
    assert one.strip.canvas.block is not None
    assert one.strip.canvas.block.length == 16
    one.column.temperature.setValue(20.0)
    told = card.bars.answer
    assert told is not None
    assert max(told.probabilities) <= max(answer.probabilities)
    assert not page.is_busy  # nothing is read again
    one.column.temperature.setValue(1.0)

    one.column.examples.activated.emit(0)
    one.column.joint.setChecked(True)
    assert card.bars.answer is None
    one.decide.click()
    idle(qtbot, page)
    assert [card.bars.answer is not None for card in one.questions.cards] == [True] * 3
    assert sorted(one.strip.slots.values()) == [1, 2, 3]
    first = [card.bars.answer for card in one.questions.cards]
    place = next(position for position, number in one.strip.slots.items() if number == 2)
    one.strip.canvas.selected = place
    assert [bool(card.property("chosen")) for card in one.questions.cards] == [False, True, False]
    one.decide.click()
    idle(qtbot, page)
    assert [card.bars.answer for card in one.questions.cards] == first  # same request, same answer

    one.strip.inspect.click()
    inspector = window.pages.inspector().page
    assert window.pages.stack.currentWidget() is inspector
    assert inspector.player.trace is not None
    assert len(inspector.player.trace.header.slots) == 3
    window.show_page(DECISIONS)

    sheet = one.questions.sheet
    one.questions.show_sheet(sheet.changed(1, sheet.questions[1].as_kind("choice")))
    one.decide.click()
    assert not page.is_busy
    assert one.questions.cards[1].editor is not None
    assert not one.questions.cards[1].editor.problem.isHidden()


def test_a_table_is_decided_sorted_calibrated_and_written(
    qtbot: QtBot, window: MainWindow, page: DecisionsController, tmp_path: Path
) -> None:
    view, rows = page.page.table, page.rows
    questions, sample = sample_table()
    page.show_questions(questions[:1])
    page.page.one.column.repeats.setValue(0)
    page.show("table")
    table = tmp_path / "table.csv"
    other = {"even": "odd", "odd": "even"}  # each fifth label is wrong, so that there is something to fit
    lines = [sample.columns]
    for row in sample.rows[:ROWS]:
        state, label, *rest = row.cells
        lines.append((state, other[label] if row.number % 5 == 0 else label, *rest))
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)
    view.opened.emit(table)
    qtbot.waitUntil(lambda: rows.table is not None)
    assert rows.table is not None
    assert len(rows.table.rows) == ROWS
    assert view.wanted == "state"
    view.about.setCurrentText("missing")
    view.run.click()
    qtbot.waitUntil(view.fault.isVisible)
    assert "missing" in view.fault.text()
    assert not page.is_busy

    view.about.setCurrentText("state")
    view.run.click()
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.done > 0, timeout=RUN_MS)
    assert window.context.reason_to_wait() != ""
    assert not view.open.isEnabled()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    idle(qtbot, page)
    assert rows.board is not None
    stopped = rows.board.done
    assert 0 < stopped < ROWS
    assert rows.board.failed == 0
    assert rows.progress.startswith("Stopped")

    view.run.click()
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.done == ROWS, timeout=RUN_MS)
    idle(qtbot, page)
    right, known = rows.board.accuracy(0)
    assert known == ROWS
    shown = view.rows.rows
    last = shown.columnCount() - 1  # the confidence
    view.rows.horizontalHeader().setSortIndicator(last, Qt.SortOrder.DescendingOrder)
    view.rows.horizontalHeader().sectionClicked.emit(last)
    sure = rows.board.confidence[:, 0]
    best = float(sure.max())
    qtbot.waitUntil(lambda: float(sure[shown.row_at(0)]) == best)
    assert float(sure[shown.row_at(ROWS - 1)]) == float(sure.min())
    view.filter.setCurrentIndex(2)
    view.filter.activated.emit(2)
    qtbot.waitUntil(lambda: shown.rowCount() == ROWS - right)
    view.filter.setCurrentIndex(0)
    view.filter.activated.emit(0)
    qtbot.waitUntil(lambda: shown.rowCount() == ROWS)
    view.rows.choose(0)
    chosen = shown.row_at(0)
    assert view.detail.state.text() == rows.board.states[chosen].text
    qtbot.waitUntil(lambda: view.detail.strip.canvas.block is not None and not rows.row.is_busy, timeout=RUN_MS)
    read_again = view.detail.strip._reading
    assert read_again is not None
    assert read_again.answer(0, 1.0) == rows.board.answers(chosen)[0]
    view.detail.strip.inspect.click()
    assert window.pages.stack.currentWidget() is window.pages.inspector().page
    page.show("table")

    qtbot.waitUntil(lambda: page.fitter.trust is not None)
    trust = page.fitter.trust
    assert trust is not None
    assert trust.after.nll <= trust.before.nll + 0.05
    page.show("calibration")
    page.page.calibration.use.click()
    fitted = page.page.one.questions.sheet.temperature
    assert fitted == pytest.approx(trust.temperature, abs=0.01)
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.temperature == fitted)

    target = tmp_path / "answers.csv"
    with qtbot.waitSignal(rows.written):
        view.written.emit(target)
    with target.open(encoding="utf-8-sig", newline="") as written:
        found = list(csv.DictReader(written))
    assert len(found) == ROWS
    assert {row["parity_answer"] for row in found} <= {"even", "odd"}
    assert sum(row["parity_answer"] == row["parity_label"] for row in found) == right

    file = tmp_path / "questions.json"
    before = page.page.one.questions.sheet
    page.store.save(file)
    page.page.one.column.examples.activated.emit(1)
    assert page.page.one.questions.sheet != before
    page.store.open(file)
    assert page.page.one.questions.sheet == before
    page.store.open(table)  # it is none
    assert page.page.one.questions.sheet == before


def circles(colours: str, folder: Path) -> list[Path]:
    """A drawing of one circle for each letter, as its colour begins."""
    paths = []
    for place, letter in enumerate(colours):
        name = next(name for name in drawings.COLOURS if name[0] == letter)
        circle = drawings.DrawnShape("circle", name, drawings.COLOURS[name], 0.4 + 0.01 * place, 0.5, 0.14, 0.0)
        paths.append(folder / f"{place}.png")
        Image.fromarray(drawings.draw(drawings.Scene((250, 250, 250), (circle,)))).save(paths[-1])
    return paths


@pytest.mark.slow
def test_a_picture_alone_is_decided_about_by_a_model_that_sees(
    qtbot: QtBot, window: MainWindow, page: DecisionsController, tmp_path: Path
) -> None:
    one = page.page.one
    (drawing,) = circles("r", tmp_path)
    assert not one.column.frame.choose.isEnabled()
    assert "only reads text" in one.column.frame.choose.toolTip()
    one.column.examples.activated.emit(len(samples()))
    shown = one.column.frame.pictures
    qtbot.waitUntil(lambda: bool(shown.chips))
    assert one.column.state.toPlainText() == ""
    assert not one.decide.isEnabled()
    assert "only reads text" in one.message.text()
    page.decide()
    assert not page.is_busy
    one.load.click()
    qtbot.waitUntil(one.decide.isEnabled, timeout=RUN_MS)
    assert window.context.model is not None
    assert window.context.model.path_or_id == SIGHT
    (sight,) = (model for model in EMBEDDED if model.id == SIGHT)
    assert ("do not trust it" in one.message.text()) == (sight.decides_about != "drawings")
    assert not one.load.isVisible()
    assert "66 tokens" in shown.chips[0].facts.text()
    one.decide.click()
    idle(qtbot, page)
    assert one.fault.text() == ""
    first = [card.bars.answer for card in one.questions.cards]
    assert len(first) == 3
    assert None not in first

    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(drawing)), QUrl.fromLocalFile(str(tmp_path / "none.png"))])
    copying, button, key = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    one.column.frame.dropEvent(QDropEvent(QPointF(9, 9), copying, data, button, key))
    qtbot.waitUntil(lambda: len(shown.chips) == 2)
    assert "none.png" in one.column.note.text()
    shown.chips[0].remove.click()
    assert [chip.shown.name for chip in shown.chips] == ["0.png"]
    one.decide.click()
    idle(qtbot, page)
    assert [card.bars.answer for card in one.questions.cards] != first  # another picture was seen

    one.strip.inspect.click()
    inspector = window.pages.inspector().page
    trace = inspector.player.trace
    assert trace is not None
    assert [picture.width for picture in trace.pictures] == [drawings.SIDE]
    assert len(inspector.pictures.thumbs) == 1
    inspector.player.select(0)
    window.show_page(DECISIONS)

    one.column.examples.activated.emit(0)
    assert shown.chips == []
    assert "was not trained to decide" in one.message.text()


@pytest.mark.slow
def test_a_table_of_pictures_is_decided_calibrated_and_written(
    qtbot: QtBot, window: MainWindow, page: DecisionsController, tmp_path: Path
) -> None:
    view, rows = page.page.table, page.rows
    page.show("table")
    files = circles("rgbypbrgby", tmp_path)
    (tmp_path / "broken.png").write_bytes(files[0].read_bytes()[:-30])
    Image.new("1", (40_000, 9)).save(tmp_path / "huge.png")
    names = [*(file.name for file in files), "broken.png", "huge.png", "none.png", "../above.png"]
    labels = ["yes" if place in (0, 6) else "no" for place in range(len(names))]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(("picture,presence_label", *map(",".join, zip(names, labels, strict=True)))))
    view.opened.emit(table)
    qtbot.waitUntil(lambda: rows.table is not None)
    assert not view.pictures.isEnabled()
    assert view.wanted_pictures is None
    assert "only reads text" in view.message.text()

    window.context.load(SIGHT)
    qtbot.waitUntil(view.pictures.isEnabled, timeout=RUN_MS)
    assert (view.wanted_pictures, view.wanted) == ("picture", "")
    view.pictures.setCurrentIndex(0)
    view.about.setCurrentText("picture")
    view.pictures.setCurrentIndex(view.pictures.findData("picture"))
    view.pictures.activated.emit(1)
    assert view.wanted == ""
    page.show_questions([YesNo("Is there a red circle?", name="presence")])
    page.page.one.column.repeats.setValue(0)
    page.show("table")
    qtbot.waitUntil(view.run.isEnabled, timeout=RUN_MS)
    view.run.click()
    qtbot.waitUntil(lambda: rows.board is not None and rows.board.done == len(names), timeout=RUN_MS)
    idle(qtbot, page)
    board = rows.board
    assert board is not None
    problems = [outcome.problem for outcome in board.outcomes if outcome is not None and outcome.problem]
    assert len(problems) == 4
    for said, problem in zip(("damaged", "make it smaller", "cannot be read", "not below"), problems, strict=True):
        assert said in problem
    assert np.isfinite(board.confidence[: len(files)]).all()

    qtbot.waitUntil(lambda: not page.fitter.is_busy)
    assert page.fitter.trust is not None  # of the pictures that were read
    view.rows.choose(0)
    qtbot.waitUntil(lambda: view.detail.strip.canvas.block is not None and not rows.row.is_busy, timeout=RUN_MS)
    assert len(view.detail.pictures.thumbs) == 1
    assert view.detail.state.text() == "0.png"
    view.rows.choose(len(files))
    assert view.detail.pictures.thumbs == []

    target = tmp_path / "answers.csv"
    with qtbot.waitSignal(rows.written):
        view.written.emit(target)
    with target.open(encoding="utf-8-sig", newline="") as written:
        found = list(csv.DictReader(written))
    assert [row["picture"] for row in found] == names
    assert [row["error"] != "" for row in found] == [*[False] * len(files), *[True] * 4]
