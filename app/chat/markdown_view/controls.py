"""The controls within a text: a copy button on each program, a scroll bar under each wide box, and its links.

Links open outside the app, and only after the user has seen and confirmed the address.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QPoint, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QPushButton, QScrollBar, QWidget

from app.chat.markdown_view.blocks import safe
from app.chat.markdown_view.parse import opens
from app.chat.markdown_view.section import HEADER, Link, Section
from app.design.controls import button, discard, introduce, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.system.i18n import tr

FROM_EDGE = 11  # pixels between a button and the right end of its box
SCROLL_STEP = 24  # pixels


class Controls(QObject):
    """Manages the controls, which are children of ``host``; ``host`` paints the text itself."""

    def __init__(self, host: QWidget) -> None:
        super().__init__(host)
        self._host = host
        self._buttons: list[tuple[Section, QPushButton]] = []
        self._bars: list[tuple[Section, QScrollBar]] = []
        self._seen = 0  # number of sections that have their buttons

    def in_order(self, sections: Sequence[Section]) -> list[QWidget]:
        places = {id(section): number for number, section in enumerate(sections)}
        boxes: list[tuple[Section, QWidget]] = [*self._buttons, *self._bars]
        return [control for _, control in sorted(boxes, key=lambda box: places[id(box[0])])]

    def clear(self) -> None:
        for _, control in (*self._buttons, *self._bars):
            discard(control)
        self._buttons, self._bars, self._seen = [], [], 0

    def add_buttons(self, sections: Sequence[Section]) -> None:
        """Adds copy buttons to the programs that were read since the last call."""
        for section in sections[self._seen :]:
            if section.code is not None:
                language = section.code.language
                said = tr("Copy code, {language}", language=language) if language else tr("Copy code")
                copy_button = button(tr("Copy"), said, clicked=self._copy_code)
                copy_button.setParent(self._host)
                self._buttons.append((section, copy_button))
        self._seen = len(sections)

    def put(self, shown: Sequence[Section]) -> bool:
        """Moves all controls to their places in the layout. Returns True if a scroll bar was added."""
        self._put_buttons()
        known = {id(section): bar for section, bar in self._bars}
        for section in shown:
            bar = known.get(id(section))
            if section.overflow and bar is None:
                bar = self._add_bar(section)
            if bar is not None and (bar.geometry() != section.bar_rect() or bar.maximum() != section.overflow):
                bar.setVisible(bool(section.overflow))
                bar.setRange(0, section.overflow)
                bar.setPageStep(section.inner.width())
                bar.setGeometry(section.bar_rect())
        return len(self._bars) > len(known)

    def scroll(self, point: QPoint, by: int) -> bool:
        """Scrolls the wide box at a point sideways, by pixels. Returns True if there is one."""
        for section, bar in self._bars:
            if section.overflow and section.rect.contains(point):
                bar.setValue(bar.value() - by)
                return True
        return False

    def _put_buttons(self) -> None:
        for section, copy_button in self._buttons:
            size = copy_button.sizeHint()
            top = section.rect.top() + (px(HEADER) - size.height()) // 2
            copy_button.setGeometry(section.rect.right() - size.width() - FROM_EDGE, top, size.width(), size.height())
            copy_button.setVisible(not section.rect.isEmpty())

    def _add_bar(self, section: Section) -> QScrollBar:
        bar = introduce(
            QScrollBar(Qt.Orientation.Horizontal, self._host),
            tr("Scroll the code sideways") if section.code is not None else tr("Scroll sideways"),
        )
        bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        bar.setSingleStep(SCROLL_STEP)
        bar.valueChanged.connect(self._bar_moved)
        self._bars.append((section, bar))
        return bar

    @Slot()
    def _bar_moved(self) -> None:
        for section, bar in self._bars:
            if section.scrolled != bar.value():
                section.scrolled = bar.value()
                self._host.update(section.rect)

    @Slot()
    def _copy_code(self) -> None:
        for section, copy_button in self._buttons:
            if copy_button is self.sender() and section.code is not None:
                QGuiApplication.clipboard().setText(section.code.text)
                copy_button.setText(tr("Copied"))
                self._put_buttons()


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
