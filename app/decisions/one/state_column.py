"""The fields for the text that the questions are about, and for how they are asked. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QGridLayout, QSizePolicy, QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import button, chain_tabs, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.text_field import TextField, refusal
from app.pictures.frame import PictureFrame
from app.settings.fields import RealBox, WholeBox
from app.state.decisions.sheet import MOST_READS_AGAIN, QuestionSheet
from app.system.i18n import tr
from engine.tasks.decisions.answers import COLDEST, HOTTEST

LEAST_STATE = 136  # pixels at 100 %, of the field with its frame: the style sheet sets the height of a field alone
BOX = 88


class StateColumn(QWidget):
    """The fields. Signals are emitted after the user's edits, not by ``show_sheet``."""

    typed = Signal()
    switched = Signal()  # joint, repeats, temperature or instructions were changed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._filling = False
        self.examples = ChoiceBox()
        self.examples.setAccessibleName(tr("Examples"))
        self.examples.setPlaceholderText(tr("Examples"))
        self.examples.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.examples.setMinimumContentsLength(10)
        self.state = _text(tr("Text"), tr("The text that the questions are about: a message, a report, facts."))
        self.state.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)  # fills the column
        self.frame = PictureFrame(self.state)
        self.frame.setMinimumHeight(px(LEAST_STATE))
        self.instruct = button(tr("Instructions"), tr("Show or hide the instructions"))
        self.instruct.setCheckable(True)
        self.instructions = _text(tr("Instructions"), tr("Read by the model before the text (optional)."))
        self.instructions.setFixedHeight(px(64))
        self.instructions.hide()
        self.problem = label("", "error", wrap=True)
        self.problem.hide()
        self.note = label("", "caption", wrap=True)
        self.note.hide()
        self.joint = QCheckBox(tr("Ask all questions in one canvas"))
        self.joint.setToolTip(
            tr("One step answers all of them, each in its own slot. Unticked, each question has its own canvas.")
        )
        self.repeats = WholeBox()
        self.repeats.setRange(0, MOST_READS_AGAIN)
        self.repeats.setAccessibleName(tr("Re-check unsure answers (times)"))
        self.repeats.setToolTip(tr("An unsure answer is read again this many times, each time with new noise."))
        self.temperature = RealBox()
        self.temperature.setRange(COLDEST, HOTTEST)
        self.temperature.setDecimals(2)
        self.temperature.setSingleStep(0.05)
        self.temperature.setAccessibleName(tr("Temperature"))
        self.temperature.setToolTip(
            tr("1 shows the model's own probabilities; more makes them more even, less makes them surer.")
        )
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        head = row_of(label(tr("Text"), "section"), STRETCH, self.examples, spacing=8)
        switches = QGridLayout()
        switches.setHorizontalSpacing(8)
        switches.setVerticalSpacing(8)
        switches.setColumnStretch(0, 1)
        for row, (name, box) in enumerate(
            ((tr("Re-check unsure answers (times)"), self.repeats), (tr("Temperature"), self.temperature))
        ):
            box.setFixedWidth(px(BOX))
            box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            box.setKeyboardTracking(False)
            switches.addWidget(label(name, "setting", wrap=True), row, 0)
            switches.addWidget(box, row, 1)
        tools = row_of(self.frame.choose, STRETCH)
        self.frame.inside.addWidget(self.state, 1)
        self.frame.inside.addLayout(tools)
        self.setLayout(
            column_of(
                head,
                (self.frame, 1),
                self.note,
                self.problem,
                self.instruct,
                self.instructions,
                self.joint,
                switches,
                spacing=8,
            )
        )

    def _connect(self) -> None:
        self.state.textChanged.connect(self._type)
        self.state.focus_changed.connect(self.frame.mark_active)
        self.frame.pictures.changed.connect(self._change_pictures)
        self.frame.said.connect(self._note)
        self.instruct.toggled.connect(self.instructions.setVisible)
        self.instructions.textChanged.connect(self._switch)
        self.joint.toggled.connect(self._switch)
        self.repeats.valueChanged.connect(self._switch)
        self.temperature.valueChanged.connect(self._switch)
        for field in (self.state, self.instructions):
            field.overlong.connect(self._refuse)

    def offer(self, titles: Sequence[str]) -> None:
        """Sets the titles of the examples."""
        self.examples.clear()
        self.examples.addItems(list(titles))
        self.examples.setCurrentIndex(-1)

    def offer_own(self) -> None:
        """Adds the user's own text to the end of the examples, if it is not there yet."""
        mine = tr("Your own text and questions")
        if self.examples.itemText(self.examples.count() - 1) != mine:
            self.examples.addItem(mine)

    def show_sheet(self, sheet: QuestionSheet) -> None:
        """Shows the settings of a sheet: instructions, joint, repeats and temperature."""
        self._filling = True
        if self.instructions.raw() != sheet.instructions:
            self.instructions.setPlainText(sheet.instructions)
        if sheet.instructions:
            self.instruct.setChecked(True)
        self.joint.setChecked(sheet.is_joint)
        self.repeats.setValue(sheet.repeats)
        self.temperature.setValue(sheet.temperature)
        self._filling = False

    def show_problem(self, text: str) -> None:
        """Shows what is wrong with the state; an empty text hides the line."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def show_blind(self, reason: str) -> None:
        """Disables pictures with a reason; empty enables them."""
        self.frame.choose.setEnabled(not reason)
        tip = reason or tr("Add pictures; you can also drop or paste them")
        self.frame.choose.setToolTip(tip)
        self.frame.choose.setAccessibleDescription(tip)

    @Slot()
    def _change_pictures(self) -> None:
        chain_tabs(self.state, (*self.frame.pictures.buttons, self.frame.choose))
        self._type()

    @Slot(str)
    def _note(self, text: str) -> None:
        self.note.setText(text)
        self.note.setVisible(bool(text))

    @Slot()
    def _type(self) -> None:
        self.show_problem("")
        self._note("")
        self.typed.emit()

    @Slot()
    def _switch(self) -> None:
        if not self._filling:
            self.switched.emit()

    @Slot(str)
    def _refuse(self, _text: str) -> None:
        self.show_problem(refusal())


def _text(name: str, hint: str) -> TextField:
    made = TextField()
    made.setAccessibleName(name)
    made.setPlaceholderText(hint)
    made.setTabChangesFocus(True)
    return made
