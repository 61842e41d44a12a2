"""The text files attached to a prompt, as chips with name, size and token count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QPushButton

from app.bridge.background import Background
from app.chat.composer.text_files import read_text_file, size_in_words, text_as_file
from app.design.chip_bar import ChipBar
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import row_of
from app.state.chat.attachment import Attachment
from app.system.i18n import tr, trn
from engine import SafelightError

MOST_FILES = 10
NAME_WIDTH = 240  # pixels at 100 %

CountText = Callable[[str], int]
"""Returns the number of tokens of a text."""


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
        self.facts = label(size_in_words(attachment.size), "caption")
        self.remove = button("×", tr("Remove {name}", name=attachment.name), tip=tr("Remove this file"))
        self.remove.setMinimumWidth(24)
        self.setLayout(row_of(name, self.facts, self.remove, margins=(12, 0, 4, 0), spacing=8))
        self.show_tokens(None)

    def show_tokens(self, tokens: int | None) -> None:
        """Shows how many tokens the file takes; None while that is unknown."""
        facts = [size_in_words(self.attachment.size)]
        if tokens is not None:
            facts.append(trn("{count} token", "{count} tokens", tokens))
        self.facts.setText(" · ".join(facts))
        self.setAccessibleName(" · ".join((self.attachment.name, *facts)))
        self.remove.setAccessibleDescription(" · ".join(facts))


class AttachmentBar(ChipBar):
    """A row of attached files, one chip each."""

    def __init__(self) -> None:
        super().__init__(tr("Attached files"))
        self.chips: list[AttachmentChip] = []
        self._count: CountText | None = None
        self._known: dict[str, int] = {}  # token counts of the attached files, by their text
        self._counting = Background(self, self._counted)

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
        self._show_tokens()
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

    def set_counter(self, count: CountText | None) -> None:
        """Sets the token counter, which is called from another thread; None when no model is loaded."""
        self._count = count
        self._known.clear()
        self._counting.drop()
        self._show_tokens()

    def _show_tokens(self) -> None:
        texts = {chip.attachment.text for chip in self.chips}
        self._known = {text: tokens for text, tokens in self._known.items() if text in texts}
        for chip in self.chips:
            chip.show_tokens(self._known.get(chip.attachment.text))
        missing = texts - self._known.keys()
        count = self._count
        if missing and count is not None:
            self._counting.ask(lambda: {text: count(text) for text in missing})

    @Slot(object)
    def _counted(self, tokens: dict[str, int]) -> None:
        self._known.update(tokens)
        for chip in self.chips:
            chip.show_tokens(self._known.get(chip.attachment.text))

    def _drop(self, place: int) -> None:
        left = list(self.attachments)
        del left[place]
        self.set_attachments(left)
