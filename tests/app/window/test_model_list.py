"""The list of models in the top bar: what it says of each, and what choosing an entry does."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.window.topbar import MANAGE, ONE_BY_ONE, OPEN_FOLDER, PURPOSE, ModelList
from engine import MINI, PUBLISHED, SUDOKU
from engine.catalog import SMALL, installed

HOSTED = "http://127.0.0.1:8000/v1#org/model"


@pytest.fixture
def listed(qtbot: QtBot) -> ModelList:
    made = ModelList()
    qtbot.addWidget(made)
    made.offer_models([(MINI, "Safelight Mini"), ("/models/26b", PUBLISHED[0].title), (HOSTED, "model at host")])
    made.show()
    return made


def entries(listed: ModelList) -> list[str | None]:
    return [listed.itemData(place) for place in range(listed.count())]


def test_the_small_models_come_first_then_the_others_and_single_small_ones_are_folded(listed: ModelList) -> None:
    own, more = [SMALL, "/models/26b", HOSTED], [None, MANAGE, OPEN_FOLDER]
    small = [model.id for model in installed()]
    assert entries(listed) == [*own, ONE_BY_ONE, *more]
    listed.show_model("/models/26b", "26B")
    listed.activated.emit(listed.findData(ONE_BY_ONE))
    assert entries(listed) == [*own, *small, *more]
    assert (listed.view().isVisible(), listed.currentData()) == (True, "/models/26b")
    listed.hidePopup()


def test_a_single_small_model_that_is_loaded_opens_the_fold(listed: ModelList) -> None:
    listed.show_model(SUDOKU, "Safelight Sudoku")
    assert listed.currentData() == SUDOKU
    assert ONE_BY_ONE not in entries(listed)


def test_each_entry_says_what_it_is_for(listed: ModelList) -> None:
    listed.show_model(SUDOKU, "Safelight Sudoku")
    for place in range(listed.count()):
        if title := listed.itemText(place):
            purpose = listed.itemData(place, PURPOSE)
            assert purpose[0].isupper() or purpose[0] in "/~"
            assert listed.itemData(place, Qt.ItemDataRole.AccessibleTextRole) == f"{title}, {purpose}"
    purposes = [listed.itemData(listed.findData(path), PURPOSE) for path in (SUDOKU, "/models/26b", HOSTED)]
    assert purposes == [
        "Solves Sudoku puzzles",
        PUBLISHED[0].purpose[:1].upper() + PUBLISHED[0].purpose[1:],
        "Use a model on another machine",
    ]


def test_a_folder_is_described_by_its_place(listed: ModelList) -> None:
    listed.show_model(str(Path.home() / "models" / "mine"), "mine")
    assert listed.currentData(PURPOSE) == "~/models/mine"
    assert listed.itemData(listed.currentIndex() + 1, PURPOSE) is None  # the separator
    listed.show_model("/elsewhere/mine", "mine")
    assert listed.currentData(PURPOSE) == "/elsewhere/mine"
    listed.show_model("", "")
    assert listed.currentIndex() == -1


def test_a_choice_is_reported_and_links_to_more_choose_nothing(qtbot: QtBot, listed: ModelList) -> None:
    listed.show_model(MINI, "Safelight Mini")
    chosen: list[str] = []
    listed.model_chosen.connect(chosen.append)
    for data, signal in ((MANAGE, listed.manage_asked), (OPEN_FOLDER, listed.folder_asked)):
        with qtbot.waitSignal(signal):
            listed.setCurrentIndex(listed.findData(data))
            listed.activated.emit(listed.findData(data))
        assert listed.currentData() == MINI
    listed.activated.emit(listed.findData(MINI))  # the one that is loaded
    listed.activated.emit(listed.findData(HOSTED))
    assert chosen == [HOSTED]
