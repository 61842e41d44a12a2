"""Tool tips of texts from outside show them as they are."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from app.decisions.table.model import RowsModel
from app.design.controls import Elided, plain_tip
from app.pictures.source import PictureSource
from app.pictures.thumb import PictureThumb
from app.state.chat.attachment import AttachedPicture
from engine.tasks.decisions.table import table_from

MARKUP = "<img src='file://elsewhere/share/x.png'> &amp; <b>"


def read(tip: str) -> str:
    """What a tool tip shows."""
    document = QTextDocument()
    document.setHtml(tip)
    return document.toPlainText()


@pytest.mark.parametrize("text", [MARKUP, f"{MARKUP}\nand more", "<i>a</i>"])
def test_markup_is_shown(text: str) -> None:
    assert read(plain_tip(text)) == text


def test_what_is_no_markup_stays_as_it_is() -> None:
    assert plain_tip("a < b && c\nd") == "a < b && c\nd"


def test_names_and_cells_of_a_stranger_open_nothing(qtbot: QtBot) -> None:
    thumb = PictureThumb(AttachedPicture(MARKUP, "0" * 64, 3, 2), PictureSource(lambda *_: None), 48)
    title = Elided("title")
    for made in (thumb, title):
        qtbot.addWidget(made)
    title.set_whole(MARKUP)
    qtbot.waitUntil(lambda: not thumb.is_loading)
    assert MARKUP in read(thumb.toolTip())
    assert read(title.toolTip()) == MARKUP
    rows = RowsModel()
    rows.show_table(table_from(f"state,more\n{MARKUP},x\n".encode(), "a.csv"), None)
    assert read(rows.data(rows.index(0, 0), Qt.ItemDataRole.ToolTipRole)) == MARKUP
