"""Tokens are found where their own letters stand on the page."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.prose.widget import Prose
from app.state.run.text_map import TextMap, read

RICH = """# Head

Some **bold** text
with lines, [a link](http://an.example/page) and \U0001f600 there.

- one
- two `code`, un*believ*able
  - deep

> quoted

```python
def f(x):
    return x
```

| a | bb |
|---|---|
| one | two |

The end, in a paragraph that is long enough to go on in another line, where its last words are."""


@pytest.fixture
def prose(qtbot: QtBot) -> Prose:
    made = Prose("Answer")
    qtbot.addWidget(made)
    made.set_text(RICH)
    made.resize(420, 700)
    made.show()
    QApplication.sendPostedEvents()
    return made


def by_letters(text: str) -> TextMap:
    return read([ord(letter) for letter in text], chr, lambda _token: False)


def test_every_letter_is_where_it_stands(prose: Prose) -> None:
    rects = prose.token_rects(by_letters(RICH))
    for position, rect in rects.items():
        piece = next(piece for piece in prose.pieces if piece.rect.contains(rect.center().toPoint()))
        near = piece.position_at(rect.center())
        letters = {piece.document.characterAt(place) for place in (near - 1, near)}
        assert RICH[position] in letters or not RICH[position].isascii()
    lost = "".join(letter for position, letter in enumerate(RICH) if position not in rects)
    assert "".join(lost.split()) == "#****[](http://an.example/page)--``**->```python```||||---|---||||"


def test_only_what_a_text_ends_with_is_looked_for(prose: Prose) -> None:
    tail = "\n\n| one | two |\n\nThe end" + RICH.partition("The end")[2]
    whole, found = prose.token_rects(by_letters(RICH)), prose.token_rects(by_letters("thoughts " + tail))
    shift = len("thoughts " + tail) - len(RICH)
    assert found == {position + shift: rect for position, rect in whole.items() if position + shift in found}
    assert len(found) == sum(not letter.isspace() and letter != "|" for letter in tail)


def test_nothing_is_said_of_a_text_whose_end_is_not_shown(prose: Prose) -> None:
    prose.set_text("line\n\n" * 900 + "end")
    assert prose.show_all.isVisibleTo(prose)
    assert prose.token_rects(by_letters("end")) == {}
