"""The Decisions page in the real window with the real embedded model: a state, pictures, files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from pytestqt.qtbot import QtBot

from app.context import DECISIONS
from app.decisions.controller import DecisionsController
from app.state.decisions.samples import samples
from app.state.decisions.sheet import QuestionSheet
from app.window.main_window import MainWindow
from engine import DECIDER, SIGHT
from engine.catalog import EMBEDDED
from engine.tasks import drawings

RUN_MS = 180_000


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


def test_questions_go_to_a_file_and_back(page: DecisionsController, tmp_path: Path) -> None:
    file, other = tmp_path / "questions.json", tmp_path / "other.txt"
    page.page.one.column.temperature.setValue(1.5)
    before = page.page.one.questions.sheet
    page.store.save(file)
    page.page.one.column.examples.activated.emit(1)
    assert page.page.one.questions.sheet != before
    page.store.open(file)
    assert page.page.one.questions.sheet == before
    other.write_text("state,label\n", encoding="utf-8")
    page.store.open(other)  # it is none
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
