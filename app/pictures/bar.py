"""The pictures attached to a prompt, as thumbnails with size and token count. Read and decoded in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QPushButton

from app.bridge.background import Background
from app.design.chip_bar import ChipBar
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.library.pictures import PictureStore
from app.pictures.files import Pasted, read_picture
from app.pictures.source import PictureSource
from app.pictures.thumb import PictureThumb, name_of, size_of
from app.state.chat.attachment import AttachedPicture
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.pictures import Picture

MOST_PICTURES = 10
NAME_WIDTH = 160  # pixels at 100 %
THUMB_HEIGHT = 48

Cost = Callable[[int, int], int]
"""Returns the number of tokens of a picture, given its width and height in pixels."""


def refusal_of(problems: Sequence[str]) -> str:
    """Returns one line about pictures that were not attached; empty if all were."""
    if not problems:
        return ""
    more = len(problems) - 1
    rest = trn("{count} more file was not attached.", "{count} more files were not attached.", more) if more else ""
    return f"{problems[0]} {rest}".strip()


@dataclass
class _Read:
    """The result of reading. Pictures are kept in memory, so that they can be sent even if the disk fails."""

    pictures: list[tuple[str, Picture]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class PictureChip(QFrame):
    """The chip of one picture; ``remove`` is its button."""

    def __init__(self, shown: AttachedPicture, source: PictureSource) -> None:
        super().__init__()
        self.shown = shown
        self.setProperty("role", "well")
        self.thumb = PictureThumb(shown, source, THUMB_HEIGHT)
        name = label(name_of(shown))
        name.setText(name.fontMetrics().elidedText(name_of(shown), Qt.TextElideMode.ElideMiddle, px(NAME_WIDTH)))
        self.facts = label("", "caption")
        self.remove = button("×", tr("Remove {name}", name=name_of(shown)), tip=tr("Remove this picture"))
        self.remove.setMinimumWidth(24)
        words = column_of(STRETCH, name, self.facts, STRETCH, spacing=0)
        self.setLayout(row_of(self.thumb, words, self.remove, margins=(4, 4, 4, 4), spacing=8))
        self.show_cost(None)

    def show_cost(self, cost: Cost | None) -> None:
        """Shows how many tokens the picture takes; None if the model cannot see."""
        facts = [size_of(self.shown)]
        if cost is not None:
            facts.append(trn("{count} token", "{count} tokens", cost(self.shown.width, self.shown.height)))
        self.facts.setText(" · ".join(facts))
        self.setAccessibleName(" · ".join((name_of(self.shown), *facts)))
        self.remove.setAccessibleDescription(" · ".join(facts))


class PictureBar(ChipBar):
    """A row of attached pictures, one chip each."""

    refused = Signal(object)  # list[str], a sentence for each picture that was not attached; may be empty

    def __init__(self) -> None:
        super().__init__(tr("Pictures of the prompt"))
        self.chips: list[PictureChip] = []
        self._store = PictureStore(None)
        self._source = PictureSource(self._store.get)
        self._cost: Cost | None = None
        self._held: list[Picture] = []
        self._waiting: list[Pasted] = []
        self._reading = Background(self, self._add)

    @property
    def pictures(self) -> tuple[AttachedPicture, ...]:
        return tuple(chip.shown for chip in self.chips)

    @property
    def buttons(self) -> list[QPushButton]:
        return [made for chip in self.chips for made in (chip.thumb, chip.remove)]

    @property
    def is_reading(self) -> bool:
        return self._reading.is_busy

    def set_store(self, store: PictureStore, source: PictureSource) -> None:
        """Sets where pictures are stored and where they are read from."""
        self._store, self._source = store, source

    def set_cost(self, cost: Cost | None) -> None:
        """Sets how tokens are counted; None if the model cannot see."""
        self._cost = cost
        for chip in self.chips:
            chip.show_cost(cost)

    def set_pictures(self, pictures: Sequence[AttachedPicture]) -> None:
        """Replaces the attached pictures, and drops those still being read."""
        if self.is_reading:
            self._waiting.clear()
            self._reading.drop()
            self.refused.emit([])
        self._show(pictures)

    def _show(self, pictures: Sequence[AttachedPicture]) -> None:
        if tuple(pictures) == self.pictures:
            return
        self.chips = [PictureChip(shown, self._source) for shown in pictures]
        there = {shown.digest for shown in pictures}
        self._held = [picture for picture in self._held if picture.digest in there]
        for chip in self.chips:
            chip.show_cost(self._cost)
        self._place(self.chips, [chip.remove for chip in self.chips])
        self.changed.emit()

    def add(self, sources: Sequence[Pasted]) -> None:
        """Reads pictures and attaches them; then emits ``refused``."""
        self._waiting += sources
        if not self._reading.is_busy:
            self._read()

    def _read(self) -> None:
        sources, self._waiting = self._waiting, []
        store = self._store

        def read() -> _Read:
            found = _Read()
            for source in sources:
                if len(found.pictures) == MOST_PICTURES:  # thousands, as from a folder, would not fit in memory
                    found.problems.append(_too_many())
                    break
                try:
                    found.pictures.append(read_picture(source))
                    store.keep(found.pictures[-1][1])
                except SafelightError as error:  # unreadable, or not stored; storing is tried again when it is sent
                    found.problems.append(str(error))
            return found

        self._reading.ask(read)

    @Slot(object)
    def _add(self, found: _Read) -> None:
        shown, problems = list(self.pictures), found.problems
        for name, picture in found.pictures:
            if picture.digest in {one.digest for one in shown}:
                problems.append(tr("{name} is attached already.", name=name or tr("This picture")))
            elif len(shown) >= MOST_PICTURES:
                problems.append(_too_many())
            else:
                self._held.append(picture)
                shown.append(AttachedPicture(name, picture.digest, picture.width, picture.height))
        self._show(shown)
        self.refused.emit(problems)
        if self._waiting:
            self._read()

    def _drop(self, place: int) -> None:
        left = list(self.pictures)
        del left[place]
        self._show(left)


def _too_many() -> str:
    return tr("At most {most} pictures can be sent; remove one first.", most=MOST_PICTURES)
