"""The fields of one question: its text and its options. Knows no model."""

from __future__ import annotations

import functools
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QGridLayout, QLineEdit, QPushButton, QWidget

from app.decisions import words
from app.design.choice_box import ChoiceBox
from app.design.controls import FlowLayout, button, focus_in_view, label, restyle
from app.design.fonts import px
from app.design.layouts import column_of
from app.state.decisions.drafts import KINDS, DraftProblem, QuestionDraft
from app.system.i18n import tr
from engine.tasks.decisions.questions import MOST_TEXT, Option

NAME_WIDTH = 104  # pixels at 100 %
LONGEST_NAME = 200  # characters


class QuestionEditor(QWidget):
    """The fields. ``changed`` emits the new draft after each edit."""

    changed = Signal(object)
    rearranged = Signal()  # the option fields were replaced

    def __init__(self, draft: QuestionDraft) -> None:
        super().__init__()
        self.draft = draft
        self.rows: list[tuple[QLineEdit, QLineEdit]] = []
        self._removers: list[QPushButton] = []
        self.kind = ChoiceBox()
        self.kind.setAccessibleName(tr("Type of question"))
        for kind in KINDS:
            self.kind.addItem(tr(words.KIND_TITLES[kind]), kind)
        self.name = _field(tr("Name"), tr("Name"), LONGEST_NAME)
        self.name.setFixedWidth(px(NAME_WIDTH))
        self.name.setToolTip(tr("Names the question's columns in tables, and the question in files."))
        self.instructions = _field(tr("Question"), tr("What is asked about the text?"), MOST_TEXT)
        self.problem = label("", "error", wrap=True)
        self.add_option = button(tr("Add an option"), clicked=self._add_option)
        self._options = QWidget()
        top = QWidget()
        self.head = FlowLayout(top)
        self.head.addWidget(self.kind)
        self.head.addWidget(self.name)
        self._grid = QGridLayout(self._options)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(1, 2)
        self._grid.setColumnStretch(2, 3)
        self.setLayout(column_of(top, self.instructions, self._options, self.add_option, self.problem, spacing=8))
        self._show(draft)
        self.kind.activated.connect(self._choose_kind)
        self.name.textEdited.connect(self._type)
        self.instructions.textEdited.connect(self._type)

    def tab_stops(self) -> list[QWidget]:
        """Returns the widgets of the Tab order that follow ``head``."""
        stops: list[QWidget] = [self.instructions]
        for place, row in enumerate(self.rows):
            stops += [*row, *self._removers[place : place + 1]]
        return [*stops, self.add_option]

    def _show(self, draft: QuestionDraft) -> None:
        self.draft = draft
        self.kind.setCurrentIndex(KINDS.index(draft.kind))
        self.name.setText(draft.name)
        self.instructions.setText(draft.instructions)
        self._show_options()

    def _show_options(self) -> None:
        while (item := self._grid.takeAt(0)) is not None:
            old = item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        self.rows, self._removers = [], []
        for place, option in enumerate(self.draft.options):
            self._add_row(place, option)
        is_fixed = self.draft.kind == "yes-no"
        self.add_option.setVisible(not is_fixed)
        is_score = self.draft.kind == "score"
        self.add_option.setText(tr("Add a level") if is_score else tr("Add an option"))
        self.add_option.setAccessibleName(self.add_option.text())
        self.add_option.setEnabled(self.draft.has_room)
        self.rearranged.emit()

    def _add_row(self, place: int, option: Option) -> None:
        draft = self.draft
        is_fixed = draft.kind == "yes-no"
        title = words.option_title(draft.kind, option.name) if is_fixed else words.mark_of(draft.kind, place)
        named = {"choice": tr("Option {mark}", mark=title), "score": tr("Level {mark}", mark=title)}
        shown = named.get(draft.kind, title)
        name = _field(shown, tr("Level") if draft.kind == "score" else tr("Option"), LONGEST_NAME)
        meaning = _field(tr("What {option} means", option=shown), tr("What it means (optional)"), MOST_TEXT)
        name.setText(option.name)
        meaning.setText(option.description)
        self._grid.addWidget(label(title, "caption"), place, 0)
        if is_fixed:
            self._grid.addWidget(meaning, place, 1, 1, 3)
            name.setParent(self._options)
            name.hide()
        else:
            self._grid.addWidget(name, place, 1)
            self._grid.addWidget(meaning, place, 2)
            remove = button("✕", tr("Remove {option}", option=shown))
            remove.setEnabled(draft.has_spare)
            remove.clicked.connect(functools.partial(self._remove_option, place))
            self._grid.addWidget(remove, place, 3)
            self._removers.append(remove)
        for field in (name, meaning):
            field.textEdited.connect(self._type)
        self.rows.append((name, meaning))

    def show_problem(self, problem: DraftProblem | None) -> None:
        """Marks the field with the problem, and shows its text; None removes both."""
        self.problem.setText("" if problem is None else problem.text)
        self.problem.setVisible(problem is not None)
        wrong = None if problem is None else self._field_of(problem)
        for field in (self.name, self.instructions, *(name for name, _ in self.rows)):
            if bool(field.property("wrong")) != (field is wrong):
                restyle(field, "wrong", field is wrong)
            field.setAccessibleDescription(self.problem.text() if field is wrong else "")

    def _field_of(self, problem: DraftProblem) -> QLineEdit:
        if problem.field == "options" and 0 <= problem.place < len(self.rows):
            return self.rows[problem.place][0]
        return self.name if problem.field == "name" else self.instructions

    def focus_on(self, problem: DraftProblem | None) -> None:
        """Moves the focus to the field with the problem; None to the first field."""
        focus_in_view(self.instructions if problem is None else self._field_of(problem))

    @Slot()
    def _type(self) -> None:
        options = tuple(
            Option(name.text(), meaning.text()) if self.draft.kind != "yes-no" else Option(own.name, meaning.text())
            for own, (name, meaning) in zip(self.draft.options, self.rows, strict=True)
        )
        self._change(
            replace(self.draft, name=self.name.text().strip(), instructions=self.instructions.text(), options=options)
        )

    @Slot(int)
    def _choose_kind(self, index: int) -> None:
        self._change(self.draft.as_kind(KINDS[index]))
        self._show_options()

    @Slot()
    def _add_option(self) -> None:
        self._change(self.draft.plus_option())
        self._show_options()
        focus_in_view(self.rows[-1][0])

    def _remove_option(self, place: int) -> None:
        self._change(self.draft.minus_option(place))
        self._show_options()
        self.rows[min(place, len(self.rows) - 1)][0].setFocus()

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
