"""Runs to choose from, as cards under headings, in as many columns as fit. Runs are known by their keys only."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, QSize, Qt, Signal, Slot
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QMenu, QPushButton, QSizePolicy, QWidget

from app.bridge.background import Background
from app.design import themes
from app.design.controls import button, discard, introduce, label
from app.design.fonts import px
from app.design.icons import BUTTON, DotsButton
from app.design.layouts import STRETCH, ColumnPage, Gap, boxed, column_of, row_of
from app.design.notice import ask, ask_name
from app.inspector.run_pictures import PictureView, RunPicture
from app.system.i18n import size, tr, trn
from engine import SafelightError
from engine.trace import name_of, name_trace, removing, trace_files

CONTENT_WIDTH = 960  # pixels at 100 %
CARD_WIDTH = 300  # least pixels at 100 %
CARD_MARGINS = (16, 12, 16, 12)  # pixels: left, top, right, bottom
GAP = 12
MAX_COLUMNS = 3
FEW_ROWS = 2  # of cards in a folded section


class RunKeeping(QObject):
    """Serves the menus of cards; ``changed`` follows each change, and ``say`` gets why something stays."""

    changed = Signal()

    def __init__(self, runs: RunCards, folder: Path, say: Callable[[str], object]) -> None:
        super().__init__(runs)
        self._runs, self._folder, self._say = runs, folder, say
        self.question: QDialog | None = None
        self._counting = Background(self, self._ask_all)
        self._deleting = Background(self, self._deleted)
        runs.rename_asked.connect(self._ask_name)
        runs.delete_asked.connect(self._ask_one)
        runs.delete_all_asked.connect(self._count)

    @Slot(str)
    def _ask_name(self, key: str) -> None:
        text = tr("Name of the run; empty for its prompt:")
        self.question = ask_name(self._runs, text, name_of(Path(key)), functools.partial(self._name, Path(key)))

    def _name(self, path: Path, name: str) -> None:
        try:
            name_trace(path, name)
        except SafelightError as error:
            self._say(str(error))
        self.changed.emit()

    @Slot(str)
    def _ask_one(self, key: str) -> None:
        title = next((card.offer.title for card in self._runs.cards if card.offer.key == key), "")
        text = tr("Delete the recorded run “{title}”?", title=title)
        self.question = ask(self._runs, f"{text} {_consequence()}", functools.partial(self._delete, [Path(key)]))

    @Slot()
    def _count(self) -> None:
        self._counting.ask(lambda: [(path, status.st_size) for path, status in trace_files(self._folder)])

    @Slot(object)
    def _ask_all(self, files: list[tuple[Path, int]]) -> None:
        text = trn(
            "Delete your recorded run ({size})?",
            "Delete all {count} recorded runs ({size})?",
            len(files),
            size=size(sum(bytes for _, bytes in files)),
        )
        paths = [path for path, _ in files]
        self.question = ask(self._runs, f"{text} {_consequence()}", functools.partial(self._delete, paths))

    def _delete(self, paths: Sequence[Path]) -> None:
        self._deleting.ask(lambda: _delete(paths))

    @Slot(object)
    def _deleted(self, kept: list[str]) -> None:
        if len(kept) == 1:
            self._say(kept[0])
        elif kept:
            self._say(
                tr("{count} runs are open or still running, so they were kept. Try again later.", count=len(kept))
            )
        self.changed.emit()


def _consequence() -> str:
    return tr("Chats keep their texts, but can no longer show how they were written. This cannot be undone.")


def _delete(paths: Sequence[Path]) -> list[str]:
    """Deletes runs, each with its name; returns why some were kept."""
    kept = []
    for path in paths:
        try:
            with removing([path]):
                pass
        except SafelightError as error:
            kept.append(str(error))
    return kept


class RunPage(ColumnPage):
    """The base of pages of runs to choose from. Its column grows with the size of text."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        themes.changed.connect(self._fit_width)
        self._fit_width()

    @Slot()
    def _fit_width(self) -> None:
        self._inside.setMaximumWidth(px(CONTENT_WIDTH))


class InspectorWelcome(RunPage):
    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Inspector, nothing open"))
        self.runs = RunCards()
        self.open = button(tr("Open a file…"), tr("Open a recorded run from a file"), role="plain")
        title = label(tr("See why the text became what it is"), "display", wrap=True)
        introduction = tr(
            "A diffusion model begins with random tokens and decides all places at once, in steps: it keeps what it is "
            "sure of and tries the rest again. Go through a recorded run step by step, both ways. No model is needed."
        )
        reading = tr(
            "Choose a cell to see its history. Space plays; the left and right arrows go a step, with Shift to the "
            "next change of the cell."
        )
        texts = (title, label(introduction, "lead", wrap=True), label(reading, "caption", wrap=True))
        self.show_column(*texts, Gap(8), self.open, Gap(16), self.runs, margins=(24, 40, 24, 24), spacing=12)


class RunChooser(RunPage):
    """Cards of runs, a button to open a file, and a button back to the present comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = RunCards(lambda title: tr("Compare with {title}", title=title))
        self.open_file = button(tr("Open a file…"), tr("Compare with a run from a file"), role="plain")
        self.back = button(tr("Back to the comparison"))
        self.back.hide()
        comparing = tr(
            "Both runs are shown side by side and go through their steps together. Cells that differ are marked. "
            "Choose one with another seed, another setting, a change, or another adapter."
        )
        texts = label(tr("Compare with another run"), "title", wrap=True), label(comparing, wrap=True)
        buttons = row_of(self.open_file, self.back, STRETCH, spacing=16)
        self.show_column(*texts, buttons, Gap(8), self.runs, margins=(24, 24, 24, 24), spacing=12)


class Offer(NamedTuple):
    """A run that can be opened. ``section`` is its heading. With ``has_picture`` room is kept for a picture.

    The user's own can be renamed and deleted.
    """

    title: str
    hint: str
    key: str
    section: str = ""
    has_picture: bool = False
    is_own: bool = False


class RunCard(QPushButton):
    """The card of a run, all of it clickable, with its picture if it has one, and a menu if it is the user's own.

    It is as high as its texts need at its width.
    """

    rename_asked = Signal()
    delete_asked = Signal()

    def __init__(self, offer: Offer, name: str) -> None:
        super().__init__()
        self.offer, self.picture = offer, PictureView()
        introduce(self, name, offer.hint, role="card")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.title = label(offer.title, "card-title", wrap=True)
        self.hint = label(offer.hint, "card-hint", wrap=True)
        parts = (self.picture, Gap(4), self.title, self.hint, STRETCH)
        self._column = column_of(*parts, margins=CARD_MARGINS, spacing=4)
        self.setLayout(self._column)
        self.picture.setVisible(offer.has_picture)  # not before: it would be a window of its own
        for part in (self.title, self.hint):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.dots = DotsButton(tr("Actions for {title}", title=offer.title), self)
        self.dots.setVisible(offer.is_own)
        self.actions_menu = QMenu(self)
        if offer.is_own:
            self.setAccessibleDescription(tr("{hint}. F2 renames, Delete deletes", hint=offer.hint))
            left, top, right, bottom = CARD_MARGINS
            self._column.setContentsMargins(left, top, right + BUTTON, bottom)
            self.actions_menu.addAction(tr("Open") + "\t" + tr("Enter")).triggered.connect(self.click)
            self.actions_menu.addAction(tr("Rename…") + "\t" + "F2").triggered.connect(self.rename_asked)
            self.actions_menu.addAction(tr("Delete…") + "\t" + tr("Del")).triggered.connect(self.delete_asked)
            self.dots.clicked.connect(self._open_menu)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        asked = {Qt.Key.Key_F2: self.rename_asked, Qt.Key.Key_Delete: self.delete_asked}.get(Qt.Key(event.key()))
        if asked is not None and self.offer.is_own:
            asked.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if self.offer.is_own:
            self.actions_menu.popup(event.globalPos())

    def sizeHint(self) -> QSize:
        width = max(self.width(), px(200))
        return QSize(width, self._column.totalHeightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(px(160), self._column.totalHeightForWidth(max(self.width(), px(160))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.dots.move(self.width() - BUTTON - 6, 6)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    @Slot()
    def _open_menu(self) -> None:
        self.actions_menu.popup(self.dots.mapToGlobal(self.dots.rect().bottomLeft()))


class RunCards(QWidget):
    """Emits the key of the chosen run. ``name`` gives the accessible name of a card from its title."""

    chosen = Signal(str)
    rename_asked = Signal(str)
    delete_asked = Signal(str)
    delete_all_asked = Signal()

    def __init__(self, name: Callable[[str], str] = lambda title: tr("Open {title}", title=title)) -> None:
        super().__init__()
        self._name = name
        self.cards: list[RunCard] = []
        self._pictures: dict[str, RunPicture] = {}
        self._offers: list[Offer] = []
        self._folded = ""
        self._is_whole = False  # the folded section was unfolded
        self._columns = 0
        self._host: QWidget | None = None
        self._column = column_of()
        self.setLayout(self._column)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def offer(self, offers: Sequence[Offer], *, folded: str = "") -> None:
        """Shows these runs as cards, in their sections; of the ``folded`` one a few, and the others at a button."""
        if (list(offers), folded) != (self._offers, self._folded):
            self._offers, self._folded = list(offers), folded
            self._build()

    @Slot(object)
    def show_pictures(self, pictures: dict[str, RunPicture]) -> None:
        """Shows the pictures of runs, by key, on their cards."""
        self._pictures = pictures
        for card in self.cards:
            card.picture.set_picture(pictures.get(card.offer.key))

    def _build(self) -> None:
        place = next((place for place, card in enumerate(self.cards) if card.hasFocus()), -1)
        if self._host is not None:
            discard(self._host)
        self.cards = []
        column = column_of(spacing=GAP)
        self._host = boxed(column)
        self._columns = self._fitting()
        few = FEW_ROWS * self._columns
        sections = dict.fromkeys(offer.section for offer in self._offers)
        for section in sections:
            offers = [offer for offer in self._offers if offer.section == section]
            hides = section == self._folded and bool(section) and not self._is_whole
            if section:
                count = len(offers) if hides and len(offers) > few else 0
                column.addLayout(self._heading(section, count, is_own=offers[0].is_own))
            cards = [self._card(offer) for offer in (offers[:few] if hides else offers)]
            self.cards += cards
            column.addLayout(self._grid(cards))
            column.addSpacing(GAP)
        self._column.addWidget(self._host)
        if place >= 0 and self.cards:
            self.cards[min(place, len(self.cards) - 1)].setFocus()

    def _heading(self, section: str, count: int, *, is_own: bool = False) -> QHBoxLayout:
        """Returns a section's title, with a button that shows all of its ``count`` runs; 0 for no button."""
        buttons = []
        if count:
            shown = tr("All runs ({count})", count=count)
            buttons.append(button(shown, tr("Show all of your runs"), clicked=self._unfold))
        if is_own:
            buttons.append(button(tr("Delete all…"), tr("Delete all of your runs"), clicked=self.delete_all_asked))
        return row_of(label(section, "title"), STRETCH, *buttons, spacing=16)

    def _card(self, offer: Offer) -> RunCard:
        card = RunCard(offer, self._name(offer.title))
        card.picture.set_picture(self._pictures.get(offer.key))
        card.clicked.connect(functools.partial(self.chosen.emit, offer.key))
        card.rename_asked.connect(functools.partial(self.rename_asked.emit, offer.key))
        card.delete_asked.connect(functools.partial(self.delete_asked.emit, offer.key))
        return card

    def _grid(self, cards: Sequence[RunCard]) -> QGridLayout:
        grid = QGridLayout()
        grid.setSpacing(GAP)
        for place in range(self._columns):
            grid.setColumnStretch(place, 1)
        for place, card in enumerate(cards):
            grid.addWidget(card, place // self._columns, place % self._columns)
        for place in range(len(cards), self._columns):  # so that cards have the same width in every section
            grid.addWidget(QWidget(), 0, place)
        return grid

    @Slot()
    def _unfold(self) -> None:
        self._is_whole = True
        self._build()
        self.cards[0].setFocus()

    def _fitting(self) -> int:
        return max(1, min(MAX_COLUMNS, (self.width() + GAP) // (px(CARD_WIDTH) + GAP)))

    def resizeEvent(self, _event: QResizeEvent) -> None:
        if self._offers and self._fitting() != self._columns:
            self._build()
