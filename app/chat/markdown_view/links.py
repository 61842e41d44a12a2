"""The links of a text. They open outside the app, and only after the user has seen and confirmed the address."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QWidget

from app.chat.markdown_view.parse import opens
from app.chat.markdown_view.safe import safe
from app.chat.markdown_view.section import Link, Section
from app.design.controls import button, label
from app.design.layouts import STRETCH, column_of, row_of
from app.system.i18n import tr


class LinkRing:
    """The links of a text in order, and which of them has the focus ring; Tab moves the ring."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self._sections = sections
        self._found: list[tuple[int, Link]] | None = None  # index of the section, link
        self._place = -1

    def look_again(self) -> None:
        """Finds the links again, after sections were added or laid out anew."""
        self._found = None

    @property
    def ringed(self) -> tuple[int, Link] | None:
        """The link with the ring and the index of its section; None without a ring."""
        return self._all()[self._place] if self._place >= 0 else None

    def leave(self) -> None:
        self._place = -1

    def to_last(self) -> None:
        self._place = len(self._all()) - 1

    def step(self, by: int) -> bool:
        """Moves the ring to the next (1) or previous (-1) link; before the first, to the whole text.

        Returns False if there is no further place.
        """
        place = self._place + by
        if -1 <= place < len(self._all()) and place != self._place:
            self._place = place
            return True
        return False

    def _all(self) -> list[tuple[int, Link]]:
        if self._found is None:
            self._found = [(number, link) for number, section in enumerate(self._sections) for link in section.links()]
        return self._found


class OpenLink(QDialog):
    """Asks the user for consent to open an address in the browser or the mail program."""

    def __init__(self, address: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.address = address
        self.setWindowTitle(tr("Open a link"))
        self.setMinimumWidth(480)
        shown = label(safe(address), "prose", wrap=True, selectable=True, name=tr("Address"))
        self.cancel = button(tr("Cancel"), tr("Do not open the address"), role="plain", clicked=self.reject)
        self.open_it = button(tr("Open"), tr("Open the address"), role="primary", clicked=self._open)
        buttons = row_of(STRETCH, self.cancel, self.open_it, spacing=8)
        self.setLayout(
            column_of(
                label(tr("This opens outside Safelight:"), "caption"),
                shown,
                buttons,
                margins=(16, 16, 16, 16),
                spacing=16,
            )
        )

    @Slot()
    def _open(self) -> None:
        if opens(self.address):
            QDesktopServices.openUrl(QUrl(self.address))
        self.accept()


def ask_to_open(address: str, parent: QWidget) -> OpenLink:
    """Shows the question; returns at once."""
    dialog = OpenLink(address, parent.window())
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog
