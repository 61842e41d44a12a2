"""Words are found in the shown conversation, prompts are reached by key, and what is selected is quoted."""

from __future__ import annotations

from PySide6.QtCore import Qt

from app.chat.find_bar import FindBar
from app.state.chat.conversation import Answer, Turn
from engine import GenerationConfig
from tests.app.chat.asking import answered, enter


def turn(prompt: str, text: str) -> Turn:
    made = Turn(prompt)
    answer = Answer("a model", 0, GenerationConfig(), status="done")
    answer.text = text
    made.answers.items.append(answer)
    made.answers.show(0)
    return made


def test_hits_are_walked_in_order_and_around(qtbot):
    bar = FindBar()
    qtbot.addWidget(bar)
    turns = [turn("One apple", "Red"), turn("Two pears", "An APPLE, too"), turn("Three", "Plums")]
    went = []
    bar.went.connect(lambda hit, query: went.append((turns.index(hit) if hit else None, query)))
    bar.open(turns)
    qtbot.keyClicks(bar.edit, "apple")
    assert (went[-1], bar.count.text()) == ((1, "apple"), "2 of 2")  # the latest first
    qtbot.keyClick(bar.edit, Qt.Key.Key_Return)
    assert (went[-1], bar.count.text()) == ((0, "apple"), "1 of 2")
    qtbot.keyClick(bar.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert went[-1] == (1, "apple")
    qtbot.keyClicks(bar.edit, " red")  # all words
    assert (went[-1], bar.count.text()) == ((0, "apple red"), "1 of 1")
    assert not bar.after.isEnabled()
    qtbot.keyClicks(bar.edit, "x")
    assert (went[-1], bar.count.text()) == ((None, "apple redx"), "Not found")
    qtbot.keyClick(bar.edit, Qt.Key.Key_Escape)
    assert (went[-1], bar.isVisible()) == ((None, ""), False)


def test_the_page_marks_the_hit_and_steps_through_its_prompts(qtbot, open_chat):
    chat = open_chat()
    for number, prompt in enumerate(("first words", "second words", "third words"), start=1):
        enter(qtbot, chat, prompt)
        answered(qtbot, chat, number)
    page = chat.page
    page.open_find()
    qtbot.keyClicks(page.finder.edit, "first")
    view = page.view_of(chat._session.chat.turns[0])
    assert view is not None
    assert view.prompt.prose.first_mark() is not None
    qtbot.keyClick(page.finder.edit, Qt.Key.Key_Escape)
    assert view.prompt.prose.first_mark() is None
    assert page.composer.edit.hasFocus()
    page.step_turn(-5)
    assert page.scroller.top_item is chat._session.chat.turns[0]
    page.step_turn(1)
    assert page.scroller.verticalScrollBar().value() >= 0


def test_a_selection_is_quoted_before_what_is_typed(open_chat):
    chat = open_chat()
    chat.page.composer.set_text("Why?")
    chat.commands.quoted.emit("one\n\ntwo")
    assert chat.page.composer.text == "> one\n>\n> two\n\nWhy?"


def test_an_answer_is_copied_as_rich_text(qtbot):
    from PySide6.QtGui import QGuiApplication

    from app.chat.markdown_view.widget import MarkdownView

    view = MarkdownView("Answer")
    qtbot.addWidget(view)
    view.set_text("**bold** <b>raw</b>\n\n| a |\n|---|\n| 1 |")
    view.copy_rich()
    data = QGuiApplication.clipboard().mimeData()
    assert "<strong>bold</strong> &lt;b&gt;raw&lt;/b&gt;" in data.html()
    assert "<td>1</td>" in data.html()
    assert data.text().startswith("**bold**")
