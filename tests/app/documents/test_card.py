"""The card of a document in the composer: it is read while one types, and what is chosen of it is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.chat.composer.composer import Composer
from app.documents.reader import Document, pages_in
from app.state.chat.attachment import MAX_TEXT
from tests.app.documents.test_formats import MADE

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.fixture
def composer(qtbot):
    made = Composer()
    qtbot.addWidget(made)
    made.resize(640, 300)
    made.show()
    return made


def test_a_document_is_read_counted_and_sent_in_part(composer, qtbot, tmp_path: Path):
    composer.files.set_model(lambda messages: len(messages[0]["content"]), sees=True)
    composer.accept_files([str(MADE["a.pdf"](tmp_path / "a.pdf"))])
    (card,) = composer.files.chips
    assert card.problem == "a.pdf is still being read."
    qtbot.waitUntil(lambda: "token" in card.facts.text(), timeout=30_000)
    assert [(one.name, one.text) for one in composer.attachments] == [
        ("a.pdf", "[1]\n\nFirst page\n\n[2]\n\nSecond page")
    ]
    card.pages.setText("2")
    assert [(one.name, one.text) for one in composer.attachments] == [("a.pdf, pages 2", "[2]\n\nSecond page")]
    card.pages.setText("3")
    assert (composer.attachments, card.problem) == ((), "Say what to send of a.pdf, such as 1-3.")
    composer.files.chips[0].remove.click()
    assert not composer.files.chips


def test_pages_become_pictures(composer, qtbot, tmp_path: Path):
    composer.files.set_model(None, sees=True)
    composer.accept_files([str(MADE["a.pdf"](tmp_path / "a.pdf"))])
    (card,) = composer.files.chips
    qtbot.waitUntil(lambda: card.document is not None, timeout=30_000)
    card.as_pictures.click()
    qtbot.waitUntil(lambda: len(composer.pictures.pictures) == 2, timeout=30_000)
    assert not composer.files.chips


def test_what_cannot_be_read_is_said_and_goes(composer, qtbot, tmp_path: Path):
    path = tmp_path / "bad.docx"
    path.write_bytes(b"nothing")
    composer.accept_files([str(path)])
    qtbot.waitUntil(lambda: not composer.files.chips, timeout=30_000)
    assert composer.hint.text() == "bad.docx is damaged, or in another format than its name says."


def test_a_removed_card_ends_its_process(composer, tmp_path: Path):
    composer.accept_files([str(MADE["a.html"](tmp_path / "a.html"))])
    (card,) = composer.files.chips
    reader = card._reader
    card.remove.click()
    assert reader._process.state() == reader._process.ProcessState.NotRunning


@pytest.mark.parametrize(
    ("text", "pages"),
    [
        ("1-3", [0, 1, 2]),
        (" 2 , 4-4,2 ", [1, 3]),
        ("1–2", [0, 1]),
        ("", None),
        ("0", None),
        ("3-2", None),
        ("5", None),
        ("x", None),
    ],
)
def test_pages_are_named_as_people_write_them(text, pages):
    assert pages_in(text, 4) == pages


def test_a_document_that_is_too_long_wants_a_choice(composer, tmp_path: Path):
    composer.files._add_document(tmp_path)
    (card,) = composer.files.chips
    card._take(Document("a.pdf", Path("a.pdf"), ("x" * MAX_TEXT, "y")))
    assert card.problem.endswith("is too long; choose a part of it.")
    card.pages.setText("2")
    assert card.problem == ""
    composer.files.set_attachments(())
