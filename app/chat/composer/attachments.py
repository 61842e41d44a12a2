"""The files attached to a prompt: text files as chips with name and size, documents as cards."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFrame, QWidget

from app.design.chip_bar import ChipBar
from app.design.controls import button, introduce, label
from app.design.fonts import px
from app.design.layouts import row_of
from app.documents.card import DocumentCard
from app.documents.decoding import decode
from app.documents.formats import is_document
from app.state.chat.attachment import Attachment
from app.system.folders import shown_name
from app.system.i18n import tr
from engine import SafelightError
from engine.text.context_window import Count

MAX_FILE_BYTES = 2_000_000
MAX_FILES = 10
NAME_WIDTH = 240  # pixels at 100 %


def size_in_words(size: int) -> str:
    """Returns a number of bytes with its unit, in steps of 1000."""
    if size < 1000:
        return f"{size} B"
    for unit in ("KB", "MB", "GB"):
        size_in_unit = size / 1000 ** (1 + ("KB", "MB", "GB").index(unit))
        if size_in_unit < 999.95 or unit == "GB":
            break
    return f"{size_in_unit:,.1f}".removesuffix(".0") + f" {unit}"


def read_text_file(path: str | Path) -> Attachment:
    """Returns a file as text, with line feeds as line ends.

    Raises:
        SafelightError: it is a folder, too large, empty, not text, or cannot be read, in one sentence.
    """
    path = Path(path)
    name = shown_name(path) or tr("unnamed file")
    try:
        kind = os.stat(path)
        if not stat.S_ISREG(kind.st_mode):  # reading a pipe could block forever
            raise SafelightError(tr("{name} is not a file.", name=name))
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SafelightError(tr("{name} cannot be read: {reason}.", name=name, reason=reason.lower())) from error
    return _as_text(name, data, max(kind.st_size, len(data)))


def _as_text(name: str, data: bytes, size: int) -> Attachment:
    if len(data) > MAX_FILE_BYTES:
        raise SafelightError(
            tr(
                "{name} has {size}; files of up to {limit} can be attached.",
                name=name,
                size=size_in_words(size),
                limit=size_in_words(MAX_FILE_BYTES),
            )
        )
    text = decode(data)
    if text is None:
        raise SafelightError(tr("{name} is not a text file, nor a document that can be read.", name=name))
    if not text.strip():
        raise SafelightError(tr("{name} is empty; there is nothing to attach.", name=name))
    return Attachment(name, text)


class AttachmentChip(QFrame):
    """The chip of one file; ``remove`` is its button."""

    def __init__(self, attachment: Attachment) -> None:
        super().__init__()
        self.attachment = attachment
        name = label(attachment.name)
        elided = name.fontMetrics().elidedText(attachment.name, Qt.TextElideMode.ElideMiddle, px(NAME_WIDTH))
        name.setText(elided)
        name.setToolTip(attachment.name if elided != attachment.name else "")
        size = size_in_words(attachment.size)
        self.remove = introduce(
            button("×", tr("Remove {name}", name=attachment.name), tip=tr("Remove this file")), description=size
        )
        self.remove.setMinimumWidth(24)
        self.setLayout(row_of(name, label(size, "caption"), self.remove, margins=(12, 0, 4, 0), spacing=8))
        introduce(self, f"{attachment.name} · {size}", role="well")
        self.controls: list[QWidget] = [self.remove]


class AttachmentBar(ChipBar):
    """Text files as chips, and documents as cards, which are read while one goes on typing."""

    pictured = Signal(object)  # list[QImage], the pages of a document that were asked for as pictures
    refused = Signal(str)  # why a document cannot be attached

    def __init__(self) -> None:
        super().__init__(tr("Attached files"))
        self.chips: list[AttachmentChip | DocumentCard] = []
        self._count: Count | None = None
        self._sees = False

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The files whose text is known."""
        return tuple(chip.attachment for chip in self.chips if chip.attachment is not None)

    @property
    def problem(self) -> str:
        """The reason why a document cannot be sent yet; empty if all can."""
        cards = (chip for chip in self.chips if isinstance(chip, DocumentCard))
        return next((card.problem for card in cards if card.problem), "")

    @property
    def buttons(self) -> list[QWidget]:
        """The controls of all chips in tab order."""
        return [control for chip in self.chips for control in chip.controls]

    def set_model(self, count: Count | None, sees: bool) -> None:
        """Sets how a model's tokens are counted, from another thread, and whether it sees pictures."""
        self._count, self._sees = count, sees
        for chip in self.chips:
            if isinstance(chip, DocumentCard):
                chip.set_model(count, sees)

    def set_attachments(self, attachments: Sequence[Attachment]) -> None:
        """Replaces all files, and ends the reading of documents."""
        if tuple(attachments) != self.attachments or len(self.chips) != len(attachments):
            self._show([AttachmentChip(attachment) for attachment in attachments])

    def _show(self, chips: list[AttachmentChip | DocumentCard]) -> None:
        for chip in self.chips:
            if isinstance(chip, DocumentCard) and chip not in chips:
                chip.end()
        self.chips = chips
        self._place(chips, [chip.remove for chip in chips])
        self.changed.emit()

    def add_files(self, paths: Sequence[str]) -> list[str]:
        """Attaches files that are text, and begins to read documents and folders.

        Returns:
            A sentence for each file that could not be attached.
        """
        problems: list[str] = []
        for path in paths:
            if len(self.chips) >= MAX_FILES:
                problems.append(tr("No more than {most} files can be attached; remove one first.", most=MAX_FILES))
            elif is_document(Path(path)):
                self._add_document(Path(path))
            else:
                try:
                    self._add(read_text_file(path))
                except SafelightError as error:
                    problems.append(str(error))
        return problems

    def _add(self, attachment: Attachment) -> None:
        for there in self.attachments:
            if there.text == attachment.text:
                raise SafelightError(tr("{name} is attached already.", name=there.name))
        self._show([*self.chips, AttachmentChip(attachment)])

    def _add_document(self, path: Path) -> None:
        card = DocumentCard(path)
        card.set_model(self._count, self._sees)
        card.changed.connect(self.changed)
        card.pictured.connect(self._take_pictures)
        card.failed.connect(self._refuse)
        self._show([*self.chips, card])

    def _sending(self) -> int:
        """Returns the place of the card whose signal is handled."""
        card = self.sender()
        return next(place for place, chip in enumerate(self.chips) if chip is card)

    @Slot(object)
    def _take_pictures(self, pictures: list[QImage]) -> None:
        self._drop(self._sending())
        self.pictured.emit(pictures)

    @Slot(str)
    def _refuse(self, why: str) -> None:
        self._drop(self._sending())
        self.refused.emit(why)

    def add_text(self, text: str) -> str:
        """Attaches a text as a file of its own, even beyond ``MAX_FILES``: it may be stored nowhere else.

        Returns:
            The file's name.

        Raises:
            SafelightError: it could not be attached.
        """
        names_in_use = {attachment.name for attachment in self.attachments}
        numbers = itertools.chain([""], itertools.count(2))
        names = (tr("pasted{number}.txt", number=number) for number in numbers)
        data = text.encode("utf-8", "replace")
        attachment = _as_text(next(name for name in names if name not in names_in_use), data, len(data))
        self._add(attachment)
        return attachment.name

    def _drop(self, place: int) -> None:
        self._show([one for at, one in enumerate(self.chips) if at != place])
