"""The choice of a batch's prompts: held-out tasks, puzzles, drawings or the user's own, and the seed."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QCheckBox, QFileDialog, QWidget

from app.bridge.background import Background
from app.design.controls import FlowLayout, button, flow_of, group, label
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.text_field import LONGEST, TextField, refusal
from app.race.words import group_title
from app.settings.fields import SeedBox, choice_box, whole_box
from app.settings.spec import Choice
from app.state.race.prompts import MOST_PROMPTS, BatchRequest, own_prompts
from app.system.i18n import tr, trn
from engine.files import read_text
from engine.tasks.skills import SKILLS
from engine.tasks.sudoku import BINS

SOURCE = Choice(
    "source",
    "Prompts",
    "No model was trained on these skills, puzzles and drawings, and a program checks the answers. Of your own "
    "prompts it checks those that it can.",
    (("skills", "Skills"), ("sudoku", "Sudoku puzzles"), ("drawings", "Drawings"), ("own", "Own prompts")),
)
USUAL = 20  # prompts, at first
LINES = 4  # visible lines of the field for own prompts


class PromptSource(QWidget):
    """The fields. ``changed`` is emitted after each change; ``problem`` says why there is no request."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._folder, self._fault = "", ""
        self.source = choice_box(SOURCE)
        self.skills = {name: QCheckBox(group_title(name)) for name in SKILLS}
        self.bins: dict[str, QCheckBox] = {name: QCheckBox(group_title(name)) for name in BINS}
        self.which = button("", role="plain")
        self.which.setCheckable(True)
        self.count = whole_box(tr("Number of prompts"), MOST_PROMPTS, USUAL, 88)
        self.seed = SeedBox()
        self.seed.setAccessibleName(tr("Seed of prompts and noise"))
        self.seed.setToolTip(tr("The same seed gives the same prompts to all lanes."))
        self.seed.setFixedWidth(px(168))
        self.own = TextField()
        self.own.setAccessibleName(tr("Own prompts"))
        self.own.setAccessibleDescription(tr("One on each line"))
        self.own.setPlaceholderText(tr("A prompt on each line"))
        self.own.setTabChangesFocus(True)
        self.file = button(tr("Open a file…"), tr("Open a file with a prompt on each line"), clicked=self._ask_file)
        self._reading = Background(self, self._take_text, self._say)
        self._lay_out()
        for box in (*self.skills.values(), *self.bins.values()):
            box.setChecked(True)
            box.toggled.connect(self._change)
        self.which.toggled.connect(self._change)
        self.source.currentIndexChanged.connect(self._change)
        self.own.textChanged.connect(self._change)
        self.own.overlong.connect(self._refuse)
        self._change()

    def _lay_out(self) -> None:
        self.controls = QWidget()
        self.flow = FlowLayout(self.controls, gap=16, row_gap=4)
        self._counted = group(self.count, label(tr("prompts")))
        self._bins = group(*self.bins.values())
        self._which, seeded = group(self.which), group(label(tr("Seed")), self.seed)
        for part in (group(self.source), self._counted, self._which, self._bins, seeded):
            self.flow.addWidget(part)
        self._skills = flow_of(*self.skills.values(), gap=16, row_gap=0)
        self._own = boxed(column_of(self.own, row_of(self.file, STRETCH), spacing=4))
        self.setLayout(column_of(self.controls, self._skills, self._own, spacing=8))
        self.own.setFixedHeight(LINES * self.own.fontMetrics().lineSpacing() + px(16))

    @property
    def request(self) -> BatchRequest | None:
        """The chosen request; None if ``problem`` is not empty."""
        if self.problem:
            return None
        seed = self.seed.value()
        match self.source.currentData():
            case "own":
                return BatchRequest("own", seed=seed, own=tuple(own_prompts(self.own.raw())))
            case "sudoku":
                return BatchRequest("sudoku", _ticked(self.bins), self.count.value(), seed)
            case "drawings":
                return BatchRequest("drawings", (), self.count.value(), seed)
        return BatchRequest("skills", _ticked(self.skills), self.count.value(), seed)

    @property
    def problem(self) -> str:
        """Why there is no request, as a sentence; empty if there is one."""
        match self.source.currentData():
            case "own":
                if self._fault:
                    return self._fault
                return "" if self.own.raw().strip() else tr("Write a prompt on each line, or open a file.")
            case "sudoku":
                return "" if _ticked(self.bins) else tr("Choose a kind of puzzle.")
            case "drawings":
                return ""
        return "" if _ticked(self.skills) else tr("Choose a skill.")

    @Slot()
    def _change(self) -> None:
        if self.own.raw():
            self._fault = ""
        chosen, ticked = self.source.currentData(), len(_ticked(self.skills))
        is_all = ticked == len(self.skills)
        self.which.setText(tr("All skills…") if is_all else trn("{count} skill…", "{count} skills…", ticked))
        self.which.setAccessibleName(tr("Which skills: {chosen}", chosen=self.which.text()))
        self._which.setVisible(chosen == "skills")
        self._skills.setVisible(chosen == "skills" and self.which.isChecked())
        self._bins.setVisible(chosen == "sudoku")
        self._own.setVisible(chosen == "own")
        self._counted.setVisible(chosen != "own")
        self.changed.emit()

    def allow(self, allowed: bool) -> None:
        """Enables or disables the fields; disabling also closes the list of skills."""
        if not allowed:
            self.which.setChecked(False)
        for control in (self.source, self.which, *self.bins.values(), self.count, self.seed, self.own, self.file):
            control.setEnabled(allowed)

    @Slot()
    def _ask_file(self) -> None:
        title, kinds = tr("Open prompts"), tr("Text (*.txt);;All files (*)")
        found = QFileDialog.getOpenFileName(self.window(), title, self._folder, kinds)[0]
        if found:
            self.read(Path(found))

    def read(self, path: Path) -> None:
        """Reads a file into the field for own prompts; an error is shown as ``problem``."""
        self._folder = str(path.parent)
        self._reading.ask(lambda: read_text(path, 4 * LONGEST))

    @Slot(object)
    def _take_text(self, text: str) -> None:
        self._fault = ""
        self.own.setPlainText(text)
        self._change()

    @Slot()
    def _refuse(self) -> None:
        self._say(refusal())

    @Slot(str)
    def _say(self, fault: str) -> None:
        self.own.clear()
        self._fault = fault
        self._change()


def _ticked(boxes: dict[str, QCheckBox]) -> tuple[str, ...]:
    return tuple(name for name, box in boxes.items() if box.isChecked())
