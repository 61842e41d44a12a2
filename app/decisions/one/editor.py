"""The fields of one question: its text and its options. Knows no model."""

from __future__ import annotations

import functools
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QGridLayout, QLineEdit, QPushButton, QWidget

from app.decisions import words
from app.design.choice_box import ChoiceBox
from app.design.controls import button, focus_in_view, label, restyle
from app.design.layouts import STRETCH, column_of, row_of
from app.state.decisions.drafts import FEWEST, KINDS, DraftProblem, QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.questions import MOST_TEXT, Option

LONGEST_NAME = 200  # characters


class QuestionEditor(QWidget):
    """The fields. ``changed`` emits the new draft after each edit."""

    changed = Signal(object)
    rearranged = Signal()  # the option fields were replaced

    def __init__(self, draft: QuestionDraft) -> None:
        super().__init__()
        self.draft = draft
        self.rows: list[QLineEdit] = []
        self._removers: list[QPushButton] = []
        self.kind = ChoiceBox()
        self.kind.setAccessibleName(tr("Type of question"))
        for kind in KINDS:
            self.kind.addItem(tr(words.KIND_TITLES[kind]), kind)
        self.remove = button(tr("Remove"), tr("Remove the question"))
        self.done = button(tr("Done"), tr("Hide the fields"))
        self.instructions = _field(tr("Question"), tr("What is asked about the text?"), MOST_TEXT)
        self.problem = label("", "error", wrap=True)
        self.add_option = button("", clicked=self._add_option)
        self._options = QWidget()
        self._grid = QGridLayout(self._options)
        self._grid.setContentsMargins(0, 0, 0, 0)
        top = row_of(self.kind, STRETCH, self.remove, self.done, spacing=8)
        self.setLayout(column_of(top, self.instructions, self._options, self.add_option, self.problem, spacing=8))
        self.kind.setCurrentIndex(KINDS.index(draft.kind))
        self.instructions.setText(draft.instructions)
        self._show_options()
        self.kind.activated.connect(self._choose_kind)
        self.instructions.textEdited.connect(self._type)

    def tab_stops(self) -> list[QWidget]:
        """Returns the widgets of the Tab order."""
        options = (part for pair in zip(self.rows, self._removers, strict=True) for part in pair)
        return [self.kind, self.remove, self.done, self.instructions, *options, self.add_option]

    def _show_options(self) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        self.rows, self._removers = [], []
        is_fixed, is_score = self.draft.kind == "yes-no", self.draft.kind == "score"
        for place, option in enumerate(() if is_fixed else self.draft.options):
            title = tr("Level {mark}", mark=place) if is_score else tr("Option {mark}", mark=place + 1)
            name, remove = _field(title, title, LONGEST_NAME), button("✕", tr("Remove {option}", option=title))
            name.setText(option.name)
            name.textEdited.connect(self._type)
            remove.setEnabled(len(self.draft.options) > FEWEST)
            remove.clicked.connect(functools.partial(self._remove_option, place))
            self._grid.addWidget(name, place, 0)
            self._grid.addWidget(remove, place, 1)
            self.rows.append(name)
            self._removers.append(remove)
        self.add_option.setVisible(not is_fixed)
        self.add_option.setText(tr("Add a level") if is_score else tr("Add an option"))
        self.add_option.setEnabled(self.draft.has_room)
        self.rearranged.emit()

    def show_problem(self, problem: DraftProblem | None) -> None:
        """Marks the field with the problem, and shows its text; None removes both."""
        self.problem.setText("" if problem is None else problem.text)
        self.problem.setVisible(problem is not None)
        wrong = None if problem is None else self._field_of(problem)
        for field in (self.instructions, *self.rows):
            if bool(field.property("wrong")) != (field is wrong):
                restyle(field, "wrong", field is wrong)
            field.setAccessibleDescription(self.problem.text() if field is wrong else "")

    def _field_of(self, problem: DraftProblem) -> QLineEdit:
        return self.instructions if problem.place < 0 else self.rows[problem.place]

    def focus_on(self, problem: DraftProblem | None) -> None:
        """Moves the focus to the field with the problem; None to the first field."""
        focus_in_view(self.instructions if problem is None else self._field_of(problem))

    @Slot()
    def _type(self) -> None:
        pairs = zip(self.draft.options, self.rows, strict=False)
        options = tuple(replace(own, name=name.text()) for own, name in pairs) or self.draft.options
        self._change(replace(self.draft, instructions=self.instructions.text(), options=options))

    @Slot(int)
    def _choose_kind(self, index: int) -> None:
        self._change(self.draft.as_kind(KINDS[index]))
        self._show_options()

    @Slot()
    def _add_option(self) -> None:
        self._change(replace(self.draft, options=(*self.draft.options, Option(""))))
        self._show_options()
        focus_in_view(self.rows[-1])

    def _remove_option(self, place: int) -> None:
        options = self.draft.options
        self._change(replace(self.draft, options=(*options[:place], *options[place + 1 :])))
        self._show_options()
        self.rows[min(place, len(self.rows) - 1)].setFocus()

    def _change(self, draft: QuestionDraft) -> None:
        if draft != self.draft:
            self.draft = draft
            self.changed.emit(draft)


def _field(name: str, hint: str, longest: int) -> QLineEdit:
    made = QLineEdit()
    made.setAccessibleName(name)
    made.setPlaceholderText(hint)
    made.setMaxLength(longest)
    return made
