"""The widget that the pages with a batch derive theirs from. Knows nothing of what is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QStackedWidget, QWidget

from app.batch.saving import Saver
from app.design.controls import FocusGroup, button, group, label
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of
from app.system.i18n import tr
from engine.files import write_text

TEACHING, RESULTS = 0, 1  # indices in ``BatchPanel.pages``
LONGEST_LINE = 560  # pixels at 100 %, of the teaching text


class BatchPanel(QWidget):
    """Run and Stop, progress, lines of text, ``pages`` for a teaching text or results, and files.

    Subclasses lay these out and own the wording.
    """

    stop_asked = Signal()
    failed = Signal(str)  # why a file was not written, in one sentence

    def __init__(self, run: QPushButton, stop_name: str, progress_name: str, *, stop_tip: str = "") -> None:
        super().__init__()
        self.run, self.stop = run, button(tr("Stop"), stop_name, role="plain", tip=stop_tip)
        self.buttons = group(self.run, self.stop)
        self._focus = FocusGroup(self.run, self.stop)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(progress_name)
        self.reason, self.message = label("", "caption", wrap=True), label("", "caption", wrap=True)
        self.fault = label("", "error", wrap=True, selectable=True)
        self.pages = QStackedWidget()
        self.saver = Saver(self)
        self.saver.failed.connect(self.failed)
        self.stop.clicked.connect(self._ask_to_stop)

    @Slot()
    def _ask_to_stop(self) -> None:
        self.stop_asked.emit()

    def add_pages(self, teaching: QWidget, results: QWidget) -> None:
        """Sets the two pages; the teaching text is shown first."""
        for page in (teaching, results):
            self.pages.addWidget(page)

    def show_running(self, *, is_on: bool, obstacle: str, done: int, total: int) -> None:
        """Shows the button and the progress that suit the state.

        Args:
            obstacle: Why no batch can begin, as a sentence; empty if one can.
            done: Items of the running batch that are over, of ``total``.
        """
        with self._focus:
            self.stop.setVisible(is_on)
            self.run.setVisible(not is_on)
            self.run.setEnabled(not obstacle)
        self.progress.setMaximum(max(1, total))
        self.progress.setValue(done if is_on else 0)

    def show_fault(self, text: str) -> None:
        """Shows what went wrong; empty hides it."""
        show_line(self.fault, text)

    @property
    def is_writing(self) -> bool:
        """True while a file is being written."""
        return self.saver.is_busy

    def save_text(self, title: str, name: str, suffix: str, text: Callable[[], str]) -> None:
        """Asks for a file and writes a text to it; ``text`` is called in a thread."""
        self.saver.ask(title, name, suffix, lambda path: write_text(path, text()))


def show_line(line: QLabel, text: str) -> None:
    """Shows a text in a line; hides the line if the text is empty."""
    line.setText(text)
    line.setVisible(bool(text))


def written_line(path: Path) -> str:
    """Returns the message about a written file."""
    return tr("Written: {path}", path=str(path))


def teaching(text: str, *below: QWidget) -> QWidget:
    """Returns the page that is shown before the first results: a text, and widgets below it."""
    lead = label(text, wrap=True)
    lead.setMaximumWidth(px(LONGEST_LINE))
    return boxed(column_of(lead, *below, STRETCH, margins=(0, 16, 0, 0), spacing=8))
