"""The prompt of a race: the field, Race or Stop, suggestions, and the races of this session."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import FocusGroup, button, label
from app.design.layouts import column_of, row_of
from app.design.prompt_field import PromptField
from app.design.suggestion_bar import SuggestionBar
from app.design.text_field import refusal
from app.pictures.frame import PictureFrame
from app.system.i18n import tr

MOST_LINES = 3
HISTORY_LETTERS = 18  # least width of the history box


class RaceField(PromptField):
    """A prompt field as tall as its text, up to ``MOST_LINES`` lines."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Prompt"))
        self.setAccessibleDescription(tr("Enter starts the race, Shift+Enter starts a new line"))
        self.setPlaceholderText(tr("A prompt for all lanes"))
        self.document().documentLayout().documentSizeChanged.connect(self.updateGeometry)

    def sizeHint(self) -> QSize:
        written = int(self.document().size().height())  # plain text: the height is in lines
        lines = max(1, min(MOST_LINES, written))
        margins = 2 if written <= MOST_LINES else 1  # a longer text has none below the last line that fits
        around = margins * int(self.document().documentMargin()) + 2
        return QSize(240, lines * self.fontMetrics().lineSpacing() + around)


class PromptBar(QWidget):
    """The prompt bar. Emits ``race_asked`` with the text; ``pictures`` are those attached to it."""

    race_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._can_race = False
        self.field = RaceField()
        self.frame = PictureFrame(self.field)
        self.pictures = self.frame.pictures
        self.race = button(tr("Race"), tr("Start the race"), role="primary", tip=tr("All lanes answer (Enter)"))
        self.stop = button(tr("Stop"), tr("Stop the race"), role="plain", tip=tr("Within one step (Esc)"))
        self.suggestions = SuggestionBar(one_row=True, after=self.stop)
        self.history = ChoiceBox()
        self.history.setAccessibleName(tr("Races of this session"))
        self.history.setToolTip(tr("Races of this session"))
        self.history.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.history.setMinimumContentsLength(HISTORY_LETTERS)
        self.noted = label("", "caption", wrap=True)  # a note about pictures
        self.message = label("", "caption", wrap=True)
        self.fault = label("", "error", wrap=True, selectable=True)
        self._focus = FocusGroup(self.race, self.stop)
        self._lay_out()
        self.field.submitted.connect(self._submit)
        self.field.textChanged.connect(self._allow)
        self.field.overlong.connect(self._refuse)
        self.field.focus_changed.connect(self.frame.mark_active)
        self.frame.said.connect(self._note)
        self.race.clicked.connect(self._submit)
        self.show_doing(is_busy=False, message="", fault="", can_race=False)
        self.show_history((), -1)
        self._note("")

    def _lay_out(self) -> None:
        row = row_of((self.field, 1), self.frame.choose, self.race, self.stop, spacing=8)
        self.frame.inside.addLayout(row)
        below = row_of((self.suggestions, 1), self.history, spacing=16)
        self.setLayout(column_of(self.frame, below, self.noted, self.message, self.fault, spacing=8))
        self.setFocusProxy(self.field)

    @property
    def text(self) -> str:
        return self.field.raw()

    def show_history(self, titles: Sequence[str], shown: int) -> None:
        """Shows the titles of this session's races; the box is hidden if there is only one."""
        self.history.clear()
        self.history.addItems(list(titles))
        self.history.setCurrentIndex(shown)
        self.history.setVisible(len(titles) > 1)

    def show_doing(self, *, is_busy: bool, message: str, fault: str, can_race: bool) -> None:
        """Shows whether a race is running, what the user waits for, and why the last race failed."""
        self._can_race = can_race
        with self._focus:
            self.race.setVisible(not is_busy)
            self.stop.setVisible(is_busy)
            self._allow()
        self.history.setEnabled(not is_busy)
        for line, text in ((self.message, message), (self.fault, fault)):
            line.setText(text)
            line.setVisible(bool(text))

    @Slot()
    def _allow(self) -> None:
        self.race.setEnabled(self._can_race and bool(self.text.strip()))

    @Slot()
    def _refuse(self) -> None:
        self.fault.setText(refusal())
        self.fault.show()

    @Slot(str)
    def _note(self, said: str) -> None:
        self.noted.setText(said)
        self.noted.setVisible(bool(said))

    @Slot()
    def _submit(self) -> None:
        self.field.commit()
        if self.pictures.is_reading:
            self._note(tr("A picture is still being read; race in a moment."))
        elif self.race.isEnabled() and self.race.isVisibleTo(self):
            self.race_asked.emit(self.text)
