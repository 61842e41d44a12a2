"""The composer: history, files however they come, the context meter."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import PySide6
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from app.bridge.background import Background
from app.chat.composer.attachments import MAX_FILE_BYTES, MAX_FILES, read_text_file, size_in_words
from app.chat.composer.composer import Composer
from app.chat.composer.edit import PromptHistory
from app.design.drops import local_files
from app.design.text_field import LONGEST_LINE, MAX_LINES, fits
from app.documents.decoding import decode
from app.state.chat.attachment import Attachment
from app.state.chat.prompts import prepare_with_files
from engine import MINI, SUDOKU, SafelightError
from engine.catalog import traits
from engine.tasks import sudoku
from engine.text.message import Message

# Drags are made at whole pixels up to PySide6 6.11; that constructor is deprecated from 6.12 on.
DragPoint = QPointF if PySide6.__version_info__[:2] >= (6, 12) else QPoint
COPY_OR_MOVE = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction


@pytest.fixture
def composer(qtbot: QtBot) -> Iterator[Composer]:
    made = Composer()
    qtbot.addWidget(made)
    made.resize(640, 200)
    with qtbot.waitExposed(made):
        made.show()
    made.edit.setFocus()
    yield made
    qtbot.waitUntil(lambda: not made.meter.is_counting)


def files_of(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drop(target: QWidget, data: QMimeData) -> QDropEvent:
    """Drag over the target, and drop."""
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(DragPoint(5, 5), COPY_OR_MOVE, data, buttons, keys)
    enter.setDropAction(Qt.DropAction.MoveAction)
    QApplication.sendEvent(target, enter)
    over = QDragMoveEvent(DragPoint(6, 5), COPY_OR_MOVE, data, buttons, keys)
    QApplication.sendEvent(target, over)
    event = QDropEvent(QPointF(6, 5), COPY_OR_MOVE, data, buttons, keys)
    QApplication.sendEvent(target, event)
    return event


def text_of(text: str) -> QMimeData:
    data = QMimeData()
    data.setText(text)
    return data


# ---------------------------------------------------------------- too long for the field

LONG = ("x" * (LONGEST_LINE + 1), "a\n" * MAX_LINES, ("y" * 999 + "\n") * 300)


def test_a_text_fits_by_its_lines_and_its_length() -> None:
    assert not any(fits(text) for text in (*LONG, "\r" * MAX_LINES, "\u2029" * MAX_LINES))
    assert fits("")
    assert fits("\n".join(["word"] * MAX_LINES))
    assert fits("\n".join(["x" * LONGEST_LINE] * 15))


def test_a_long_paste_becomes_a_file(composer: Composer) -> None:
    text = LONG[0]
    composer.set_text("Read this:")
    composer.edit.insertFromMimeData(text_of(text))
    assert composer.text == "Read this:"
    assert composer.attachments == (Attachment("pasted.txt", text),)
    composer.edit.insertFromMimeData(text_of(text))
    assert composer.hint.text() == "pasted.txt is attached already."
    composer.edit.insertFromMimeData(text_of("z" + text))
    assert [file.name for file in composer.attachments] == ["pasted.txt", "pasted2.txt"]


def test_pastes_do_not_add_up_to_what_is_too_long(composer: Composer) -> None:
    most = "x" * (LONGEST_LINE - 1)
    composer.edit.insertFromMimeData(text_of(f"{most}😀"))
    composer.edit.insertFromMimeData(text_of("yy"))
    assert composer.attachments == (Attachment("pasted.txt", "yy"),)


def test_a_paste_that_no_file_may_hold_is_refused_in_words(composer: Composer) -> None:
    for text, why in (
        ("x" * (MAX_FILE_BYTES + 1), "up to 2 MB"),
        ("\x00" * 9_000, "not a text"),
        (" " * 9_000, "is empty"),
    ):
        composer.edit.insertFromMimeData(text_of(text))
        assert why in composer.hint.text()
    assert not composer.text
    assert not composer.attachments


def test_a_long_prompt_that_comes_back_becomes_a_file_next_to_its_others(composer: Composer) -> None:
    files = tuple(Attachment(f"{number}.txt", str(number)) for number in range(MAX_FILES))
    composer.files.set_attachments(files)
    composer.set_text(LONG[0])
    assert composer.text == ""
    assert composer.attachments == (*files, Attachment("pasted.txt", LONG[0]))


# ---------------------------------------------------------------- history


def test_a_walk_goes_back_and_forth_and_keeps_the_draft() -> None:
    history = PromptHistory()
    history.set_conversation(["one", "two", " "])
    assert history.older("draft") == "two"
    assert history.older("two") == "one"
    assert history.place == (1, 2)
    assert history.older("one") is None
    assert history.newer("one, changed") == "two"
    assert history.newer("two") == "draft"
    assert history.place is None
    assert history.newer("draft") is None


def test_what_was_sent_is_the_latest_and_appears_once() -> None:
    history = PromptHistory()
    history.remember("elsewhere")
    history.set_conversation(["one", "two"])
    history.remember("one")
    assert history.prompts == ("elsewhere", "two", "one")
    history.set_conversation(["two", "one"])
    assert history.prompts == ("elsewhere", "two", "one")


def test_arrows_walk_only_from_the_first_and_the_last_line(qtbot: QtBot, composer: Composer) -> None:
    composer.edit.history.set_conversation(["first\nof two lines", "second"])
    edit = composer.edit
    composer.set_text("a\nb")
    hints, first = [], "first\nof two lines"
    for key, text in (
        (Qt.Key.Key_Up, "a\nb"),  # within the draft
        (Qt.Key.Key_Up, "second"),
        (Qt.Key.Key_Up, first),
        (Qt.Key.Key_Up, first),
        (Qt.Key.Key_Down, first),  # to its second line
        (Qt.Key.Key_Down, "second"),
        (Qt.Key.Key_Down, "a\nb"),
    ):
        qtbot.keyClick(edit, key)
        assert composer.text == text
        hints.append(composer.hint.text())
    assert hints[1] == "Earlier prompt 2 of 2"
    assert "Enter sends" in hints[-1]


# ---------------------------------------------------------------- files


def test_sizes_in_words() -> None:
    said = [size_in_words(size) for size in (0, 999, 1000, 4200, 999_999, 2_000_000, 12_345_678, 5 * 10**12)]
    assert said == ["0 B", "999 B", "1 KB", "4.2 KB", "1 MB", "2 MB", "12.3 MB", "5,000 GB"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_text_is_read_in_its_encoding(encoding: str) -> None:
    text = "Grüße, “quoted” – naïve café\r\nsecond\rthird\tend\n"
    assert decode(text.encode(encoding)) == "Grüße, “quoted” – naïve café\nsecond\nthird\tend\n"
    assert decode("été ".encode("latin-1") * 30 + b"\x81") == "été " * 30 + "\x81"


@pytest.mark.parametrize(
    "data",
    [
        b"text\0with a zero",
        bytes(random.Random(1).choices(range(1, 256), k=4000)),
        b"\x7fELF\x02\x01\x01",
        b"\xff\xfeodd",
        b"\xff\xfe" + "a\0b".encode("utf-16-le"),
    ],
)
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    assert decode(data) is None


def test_what_cannot_be_attached_is_said_and_a_name_is_cleaned(tmp_path: Path) -> None:
    def problem(path: Path) -> str:
        with pytest.raises(SafelightError) as caught:
            read_text_file(path)
        return str(caught.value)

    large, image, empty, gone = (tmp_path / name for name in ("large.log", "image.png", "empty.txt", "gone.txt"))
    large.write_bytes(b"x" * (MAX_FILE_BYTES + 1_000_000))
    image.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    empty.write_text(" \n")
    for path, said in (
        (tmp_path, "is not a file"),
        (large, "large.log has 3 MB"),
        (image, "is not a text file"),
        (empty, "is empty"),
        (gone, "no such file"),
    ):
        assert said in problem(path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert "is not a file" in problem(tmp_path / "pipe")  # and is not waited for
    large.write_bytes(b"x" * MAX_FILE_BYTES)
    assert read_text_file(large).size == MAX_FILE_BYTES
    odd = tmp_path / "a\nb.txt"
    odd.write_text("x")
    assert read_text_file(odd) == Attachment("a b.txt", "x")


@pytest.mark.parametrize("on_field", [False, True])
def test_dropped_files_become_chips_and_are_never_moved(composer: Composer, tmp_path: Path, on_field: bool) -> None:
    notes, folder = tmp_path / "notes.md", tmp_path / "folder"
    notes.write_text("word " * 1050)
    folder.mkdir()
    composer.set_text("kept")
    event = drop(composer.edit.viewport() if on_field else composer, files_of(notes, folder))
    assert event.isAccepted()
    assert event.dropAction() == Qt.DropAction.CopyAction
    assert composer.attachments == (Attachment("notes.md", "word " * 1050),)
    assert composer.files.problem == "folder is still being read."
    composer.files.chips[1].remove.click()
    assert composer.text == "kept"
    chip = composer.files.chips[0]
    assert chip.isVisibleTo(composer)
    assert chip.accessibleName() == "notes.md · 5.2 KB"


def test_dragged_text_is_written_not_attached(composer: Composer) -> None:
    data = text_of("https://example.org")
    data.setUrls([QUrl("https://example.org")])
    assert local_files(data) == ()
    button, no_key = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(DragPoint(5, 5), COPY_OR_MOVE, data, button, no_key)
    QApplication.sendEvent(composer, enter)
    assert not enter.isAccepted()
    drop(composer.edit.viewport(), data)
    assert composer.text == "https://example.org"
    assert composer.attachments == ()


def picture_of_a_browser(address: str, html: str = "", image: QImage | None = None) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl(address)])
    data.setText(address)
    data.setHtml(html)
    if image is not None:
        data.setImageData(image)
    return data


@pytest.mark.parametrize("on_field", [False, True])
def test_a_picture_dragged_out_of_a_browser_is_attached(qtbot: QtBot, composer: Composer, on_field: bool) -> None:
    image = QImage(4, 3, QImage.Format.Format_RGB888)
    image.fill(Qt.GlobalColor.red)
    target = composer.edit.viewport() if on_field else composer
    event = drop(target, picture_of_a_browser("https://example.org/page", '<img src="x">', image))
    assert event.dropAction() == Qt.DropAction.CopyAction
    qtbot.waitUntil(lambda: bool(composer.pictures.chips))
    assert composer.text == ""


@pytest.mark.parametrize(
    ("address", "html"), [("https://example.org/red.PNG", ""), ("http://example.org/page", '<a><IMG src="x"></a>')]
)
def test_the_address_of_a_picture_is_not_fetched(composer: Composer, address: str, html: str) -> None:
    drop(composer.edit.viewport(), picture_of_a_browser(address, html))
    assert (composer.text, composer.pictures.chips, composer.pictures.is_reading) == ("", [], False)
    assert composer.hint.text().startswith("Nothing is fetched from the web. Copy the picture")


def test_pasting_files_attaches_and_pasting_text_pastes(composer: Composer, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("content")
    data = files_of(file)
    data.setText(str(file))  # as file managers do
    QGuiApplication.clipboard().setMimeData(data)
    assert composer.edit.canPaste()
    composer.edit.paste()
    assert (composer.text, composer.attachments) == ("", (Attachment("a.txt", "content"),))
    QGuiApplication.clipboard().setText(file.as_uri())
    composer.edit.paste()
    assert composer.text == file.as_uri()
    assert len(composer.attachments) == 1


def test_the_button_asks_for_files(
    qtbot: QtBot, composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("content")
    chosen: list[list[str]] = [[str(file)], [], [str(file)]]
    starts: list[str] = []

    def ask(_parent: object, _title: str, start: str) -> tuple[list[str], str]:
        starts.append(start)
        return chosen.pop(0), ""

    monkeypatch.setattr(QFileDialog, "getOpenFileNames", ask)
    composer.attach.setFocus()
    qtbot.keyClick(composer.attach, Qt.Key.Key_Space)
    assert starts == [str(Path.home())]  # not the folder that the program was started in
    assert len(composer.attachments) == 1
    composer.attach.click()
    composer.attach.click()
    assert len(composer.attachments) == 1
    assert composer.hint.text() == "a.txt is attached already."


def test_there_is_an_end_to_files_and_each_can_be_removed(composer: Composer, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt" for number in range(MAX_FILES + 3)]
    for path in paths:
        path.write_text(path.stem)
    composer.accept_files([str(path) for path in paths])
    assert len(composer.attachments) == MAX_FILES
    assert composer.hint.text().startswith(f"No more than {MAX_FILES} files can be attached; remove one first.")
    assert composer.hint.text().endswith("2 more files were not attached.")
    assert composer.files.buttons[1].accessibleName() == "Remove 1.txt"
    composer.files.buttons[1].click()
    assert [attachment.name for attachment in composer.attachments][:2] == ["0.txt", "2.txt"]
    assert composer.files.buttons[1].hasFocus()
    for _ in range(MAX_FILES - 1):
        composer.files.buttons[0].click()
    assert composer.attachments == ()
    assert not composer.files.isVisible()
    assert composer.edit.hasFocus()


def test_a_puzzle_may_come_as_a_file() -> None:
    board = sudoku.generate(random.Random(1), 40, 40).board
    file, other = Attachment("puzzle.txt", board), Attachment("a", "x")
    for text, files in ((" ", (file,)), ("Solve this", (file,)), ("", (file, other))):
        assert prepare_with_files(traits(SUDOKU), text, files) == (sudoku.to_prompt(board), ())
    with pytest.raises(SafelightError, match="one puzzle at a time"):
        prepare_with_files(traits(SUDOKU), board, (file,))
    assert prepare_with_files(traits(MINI), " sum up ", (other,)) == ("sum up", (other,))
    with pytest.raises(SafelightError, match="Write what to do with the file"):
        prepare_with_files(traits(MINI), " ", (other,))


# ---------------------------------------------------------------- the meter


class Words:
    """Counts words, when it is let."""

    def __init__(self) -> None:
        self.counted: list[Sequence[Message]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def __call__(self, messages: Sequence[Message]) -> int:
        self.gate.wait(5)
        if self.failure is not None:
            raise self.failure
        self.counted.append(messages)
        return sum(len(message["content"].split()) for message in messages)


def watch(composer: Composer, words: Callable[[Sequence[Message]], int], limit: int = 2000, reserve: int = 96) -> None:
    earlier = [{"role": "user", "content": "a " * 600}, {"role": "assistant", "content": "b " * 600}]
    composer.meter.follow(lambda: [*earlier, {"role": "user", "content": composer.text}])
    composer.meter.set_model(words, limit, reserve)


def test_the_meter_counts_what_is_typed_once_typing_pauses(qtbot: QtBot, composer: Composer) -> None:
    meter, words = composer.meter, Words()
    assert not meter.isVisible()
    watch(composer, words)
    qtbot.keyClicks(composer.edit, "four words are typed")
    qtbot.waitUntil(lambda: meter.text == "1,204 of 2,000 tokens")
    assert meter.isVisible()
    assert len(words.counted) == 1
    assert "96 are kept free for the answer" in meter.toolTip()
    assert meter.accessibleDescription().startswith("1,204 of 2,000 tokens")


def test_the_meter_says_what_will_be_left_out(qtbot: QtBot, composer: Composer) -> None:
    watch(composer, Words(), limit=1000)
    remark = "The oldest turn no longer fits and will be left out."
    qtbot.waitUntil(lambda: composer.hint.text() == remark)
    assert remark in composer.meter.toolTip()
    assert composer.meter.text == "0 of 1,000 tokens"
    composer.block("The answer is developing")
    assert composer.hint.text() == "The answer is developing"
    composer.block("")
    composer.set_text("word " * 990)
    qtbot.waitUntil(lambda: composer.meter.text == "Too long: 990 of 1,000 tokens")
    assert composer.hint.text().endswith("Shorten the prompt, or remove a file or an image.")
    assert composer.meter.fit is not None
    assert composer.meter.fit.problem


def test_a_count_that_fails_is_said(qtbot: QtBot, composer: Composer) -> None:
    words = Words()
    words.failure = SafelightError("the template refuses this")
    watch(composer, words)
    qtbot.waitUntil(lambda: composer.meter.text == "Tokens not counted")
    assert composer.meter.toolTip() == "the template refuses this"
    assert composer.send.isEnabled()


def test_of_jobs_in_a_row_only_the_latest_is_reported(qtbot: QtBot) -> None:
    background, gate, reported, ran = Background(), threading.Event(), [], []
    background.done.connect(reported.append)

    def job(name: str) -> Callable[[], str]:
        def run() -> str:
            gate.wait(5)
            ran.append(name)
            return name

        return run

    for name in ("first", "second", "third"):
        background.ask(job(name))
    gate.set()
    qtbot.waitUntil(lambda: not background.is_busy)
    assert (ran, reported) == (["first", "third"], ["third"])
