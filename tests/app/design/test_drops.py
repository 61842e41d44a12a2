"""What of a clipboard is pasted into a prompt: the text, or the picture beside it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.design.drops import has_picture
from app.design.text_field import TextField

PAGE = "https://an.example/a cat.png"


def clipboard(text: str | None, html: str = "", *urls: str) -> QMimeData:
    data = QMimeData()
    data.setImageData(QImage(8, 4, QImage.Format.Format_RGB32))
    if text is not None:
        data.setText(text)
    if html:
        data.setHtml(html)
    if urls:
        data.setUrls([QUrl(url) for url in urls])
    return data


@pytest.mark.parametrize(
    ("text", "html", "urls", "pasted"),
    [
        (None, "", (), "picture"),
        ("", "<img src='x'>", (), "picture"),
        ("cell", "", (), "cell"),
        ("cell", "<td>cell</td>", (PAGE,), "cell"),
        (PAGE, "<img>", (PAGE,), "picture"),
        (f"see {PAGE}", "", (PAGE,), f"see {PAGE}"),
    ],
)
def test_text_is_pasted_unless_it_is_blank_or_the_picture_s_address(
    qtbot: QtBot, text: str | None, html: str, urls: tuple[str, ...], pasted: str
) -> None:
    field = TextField()
    qtbot.addWidget(field)
    field.takes_files = True
    pictures: list[QImage] = []
    field.picture_pasted.connect(pictures.append)
    data = clipboard(text, html, *urls)
    assert field.canInsertFromMimeData(data)
    assert has_picture(data) == (pasted == "picture")
    field.insertFromMimeData(data)
    assert (len(pictures), field.raw()) == ((1, "") if pasted == "picture" else (0, pasted))
