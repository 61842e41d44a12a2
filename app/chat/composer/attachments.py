"""The text files attached to a prompt, as chips with name and size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QPushButton

from app.chat.composer.text_files import read_text_file, size_in_words, text_as_file
from app.design.chip_bar import ChipBar
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import row_of
from app.state.chat.attachment import Attachment
from app.system.i18n import tr
from engine import SafelightError

MOST_FILES = 10
NAME_WIDTH = 240  # pixels at 100 %


class AttachmentChip(QFrame):
    """The chip of one file; ``remove`` is its button."""

    def __init__(self, attachment: Attachment) -> None:
        super().__init__()
        self.attachment = attachment
        self.setProperty("role", "well")
        name = label(attachment.name)
        elided = name.fontMetrics().elidedText(attachment.name, Qt.TextElideMode.ElideMiddle, px(NAME_WIDTH))
        name.setText(elided)
        name.setToolTip(attachment.name if elided != attachment.name else "")
        size = size_in_words(attachment.size)
        self.remove = button("×", tr("Remove {name}", name=attachment.name), tip=tr("Remove this file"))
        self.remove.setMinimumWidth(24)
        self.setLayout(row_of(name, label(size, "caption"), self.remove, margins=(12, 0, 4, 0), spacing=8))
        self.setAccessibleName(f"{attachment.name} · {size}")
        self.remove.setAccessibleDescription(size)


class AttachmentBar(ChipBar):
    """A row of attached files, one chip each."""

    def __init__(self) -> None:
        super().__init__(tr("Attached files"))
        self.chips: list[AttachmentChip] = []

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        return tuple(chip.attachment for chip in self.chips)

    @property
    def buttons(self) -> list[QPushButton]:
        """The remove buttons in tab order."""
        return [chip.remove for chip in self.chips]

    def set_attachments(self, attachments: Sequence[Attachment]) -> None:
        if tuple(attachments) == self.attachments:
            return
        self.chips = [AttachmentChip(attachment) for attachment in attachments]
        self._place(self.chips, self.buttons)
        self.changed.emit()

    def add_files(self, paths: Sequence[str]) -> list[str]:
        """Reads files and attaches those that are text.

        Returns:
            A sentence for each file that could not be attached.
        """
        added = list(self.attachments)
        problems: list[str] = []
        for path in paths:
            try:
                attachment = read_text_file(path)
            except SafelightError as error:
                problems.append(str(error))
                continue
            if attachment in added:
                problems.append(tr("{name} is attached already.", name=attachment.name))
            elif len(added) >= MOST_FILES:
                problems.append(tr("No more than {most} files can be attached; remove one first.", most=MOST_FILES))
            else:
                added.append(attachment)
        self.set_attachments(added)
        return problems

    def add_text(self, text: str) -> str:
        """Attaches a text as a file of its own, even beyond ``MOST_FILES``: it may be stored nowhere else.

        Returns:
            The file's name.

        Raises:
            SafelightError: it could not be attached.
        """
        taken = {attachment.name for attachment in self.attachments}
        numbers = itertools.chain([""], itertools.count(2))
        names = (tr("pasted{number}.txt", number=number) for number in numbers)
        attachment = text_as_file(next(name for name in names if name not in taken), text)
        for there in self.attachments:
            if there.text == attachment.text:
                raise SafelightError(tr("{name} is attached already.", name=there.name))
        self.set_attachments((*self.attachments, attachment))
        return attachment.name

    def _drop(self, place: int) -> None:
        left = list(self.attachments)
        del left[place]
        self.set_attachments(left)
