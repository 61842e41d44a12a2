"""A document in the composer: its name, pages and tokens, a choice of pages, and the first lines of what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QCoreApplication, Qt, Signal, Slot
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QWidget

from app.bridge.background import Background
from app.design.controls import button, introduce, label, restyle, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.documents.reader import Document, DocumentReader, pages_in
from app.pictures.bar import MAX_PICTURES
from app.state.chat.attachment import MAX_TEXT, Attachment
from app.system.folders import shown_name
from app.system.i18n import tr, trn
from engine.text.context_window import Count
from engine.text.message import message_of

WIDTH = 320  # pixels of name and first lines at 100 %
PAGES_WIDTH = 88
SHOWN = 600  # characters of the tool tip


class DocumentCard(QFrame):
    """Reads a document at once. ``attachment`` is None until its text is known, and while no pages are chosen."""

    changed = Signal()  # the attachment
    failed = Signal(str)  # it cannot be read: why, in one sentence
    pictured = Signal(object)  # list[QImage], its pages

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._is_folder = path, path.is_dir()
        self._name = shown_name(path) or tr("unnamed file")
        self.attachment: Attachment | None = None
        self.document: Document | None = None
        self._chosen: list[int] = []
        self._count: Count | None = None
        self._tokens: int | None = None
        self._sees = False
        self._counting = Background(self, self._counted)
        self.remove = button("×", tr("Remove {name}", name=self._name), tip=tr("Remove this document"))
        self.remove.setMinimumWidth(24)
        self.pages = introduce(
            QLineEdit(maxLength=200), tr("Pages of {name}", name=self._name), tip=tr("Which to send, such as 1-3, 7")
        )
        self.pages.setFixedWidth(px(PAGES_WIDTH))
        self.pages.textChanged.connect(self._choose)
        self._pages_label = label(tr("Files") if self._is_folder else tr("Pages"), "caption")
        self.as_pictures = button(
            tr("As pictures"),
            tip=tr("Sends its pages as the model would see them on paper, {most} at most", most=MAX_PICTURES),
            clicked=self._draw,
        )
        self.facts, self.begins = label("", "caption"), label("", "caption")
        title = label("")
        _elide(title, self._name)
        title.setToolTip(self._name)
        head = row_of(title, STRETCH, self.remove, spacing=8)
        choice = row_of(self.facts, STRETCH, self._pages_label, self.pages, self.as_pictures, spacing=8)
        self.setLayout(column_of(head, choice, self.begins, margins=(12, 4, 4, 8), spacing=4))
        introduce(self, self._name, role="well")
        self._reader = self._read()
        self._show()

    @property
    def controls(self) -> list[QWidget]:
        """The controls of the card in tab order."""
        return [self.pages, self.as_pictures, self.remove]

    @property
    def problem(self) -> str:
        """The reason why it cannot be sent yet; empty if it can."""
        if self.attachment is not None:
            return ""
        if self.document is None:
            return tr("{name} is still being read.", name=self._name)
        if not self.document.has_text:
            return tr("{name} has no text: its pages are pictures.", name=self._name)
        if not self._chosen:
            return tr("Say what to send of {name}, such as 1-3.", name=self._name)
        return tr("{name} is too long; choose a part of it.", name=self._name)

    def set_model(self, count: Count | None, sees: bool) -> None:
        """Sets how a model's tokens are counted, and whether it sees pictures."""
        self._count, self._sees = count, sees
        self._measure()
        self._show()

    def end(self) -> None:
        """Ends its processes."""
        self._reader.close()
        self._counting.drop()

    def _read(self, pictures: Sequence[int] = ()) -> DocumentReader:
        reader = DocumentReader(self._path, self._name, pictures, self)
        reader.failed.connect(self.failed)
        reader.progressed.connect(self._show_progress)
        reader.done.connect(self._drawn if pictures else self._take)
        app = QCoreApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(reader.close)
        return reader

    @Slot(int, int)
    def _show_progress(self, read: int, count: int) -> None:
        if count > 1:
            self.facts.setText(tr("Reading page {read} of {count} …", read=f"{read:,}", count=f"{count:,}"))

    @Slot(object)
    def _take(self, document: Document) -> None:
        self.document = document
        self.pages.setText(f"1-{len(document.pages)}")
        self._choose()

    @Slot()
    def _choose(self) -> None:
        document = self.document
        if document is None:
            return
        count = len(document.pages)
        self._chosen = (pages_in(self.pages.text(), count) or []) if document.has_pages else [0]
        text = document.text(self._chosen).strip() if document.has_text and self._chosen else ""
        name = self._name
        if 0 < len(self._chosen) < count:
            name = tr("{name}, pages {pages}", name=name, pages=self.pages.text().strip())
        self.attachment = Attachment(name, text) if 0 < len(text) <= MAX_TEXT else None
        restyle(self.pages, "wrong", not self._chosen)
        self._measure()
        self._show()
        self.changed.emit()

    def _measure(self) -> None:
        count, attachment = self._count, self.attachment
        self._tokens = None
        if count is not None and attachment is not None:
            messages = [message_of(attachment.text)]
            self._counting.ask(lambda: count(messages))

    @Slot(object)
    def _counted(self, tokens: int) -> None:
        self._tokens = tokens
        self._show()

    def _show(self) -> None:
        document = self.document
        has_pages = document is not None and document.has_pages
        self.pages.setVisible(has_pages and document is not None and document.has_text)
        self._pages_label.setVisible(self.pages.isVisibleTo(self))
        self.as_pictures.setVisible(self._sees and document is not None and self._path.suffix.lower() == ".pdf")
        if document is None:
            self.facts.setText(tr("Reading …"))
            return
        facts = []
        if has_pages and self._is_folder:
            facts = [trn("{count} file", "{count} files", len(document.pages))]
        elif has_pages:
            facts = [trn("{count} page", "{count} pages", len(document.pages))]
        if self._tokens is not None:
            facts.append(trn("{count} token", "{count} tokens", self._tokens))
        self.facts.setText(" · ".join(facts))
        said = "" if self.attachment is None else self.attachment.text[:SHOWN]
        first = self.problem or " ".join(said.split())
        _elide(self.begins, first)
        self.begins.setToolTip(said)
        self.setAccessibleDescription(" · ".join((*facts, first)))

    @Slot()
    def _draw(self) -> None:
        chosen = (self._chosen or list(range(len(self.document.pages if self.document else ()))))[:MAX_PICTURES]
        self._reader = self._read(chosen)
        self.as_pictures.setEnabled(False)

    @Slot(object)
    def _drawn(self, pictures: list[bytes]) -> None:
        self.pictured.emit([QImage.fromData(picture) for picture in pictures])


def _elide(line: QLabel, text: str) -> None:
    """Shows as much of a text as fits; a line without one takes no room."""
    show_line(line, line.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, px(WIDTH)))
