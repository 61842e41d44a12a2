"""The field for the text that the questions are about, the examples, and how they are asked. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QCheckBox, QSizePolicy, QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.text_field import TextField, refusal
from app.system.i18n import tr

LEAST_STATE = 136  # pixels at 100 %


class StateColumn(QWidget):
    """The fields."""

    def __init__(self) -> None:
        super().__init__()
        self.examples = ChoiceBox()
        self.examples.setAccessibleName(tr("Examples"))
        self.examples.setPlaceholderText(tr("Examples"))
        self.examples.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.examples.setMinimumContentsLength(10)
        self.state = TextField()
        self.state.setAccessibleName(tr("Text"))
        self.state.setPlaceholderText(tr("The text that the questions are about: a message, a report, facts."))
        self.state.setTabChangesFocus(True)
        self.state.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)  # fills the column
        self.state.setMinimumHeight(px(LEAST_STATE))
        self.problem = label("", "error", wrap=True)
        self.problem.hide()
        self.joint = QCheckBox(tr("Ask all questions in one canvas"))
        self.joint.setToolTip(
            tr("One step answers all of them, each in its own slot. Unticked, each question has its own canvas.")
        )
        head = row_of(label(tr("Text"), "section"), STRETCH, self.examples, spacing=8)
        self.setLayout(column_of(head, (self.state, 1), self.problem, self.joint, spacing=8))
        self.state.textChanged.connect(lambda: self.show_problem(""))
        self.state.overlong.connect(self._refuse)

    def offer(self, titles: Sequence[str]) -> None:
        """Sets the titles of the examples."""
        self.examples.addItems(list(titles))
        self.examples.setCurrentIndex(-1)

    def show_problem(self, text: str) -> None:
        """Shows what is wrong with the state; an empty text hides the line."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    @Slot()
    def _refuse(self, _text: str) -> None:
        self.show_problem(refusal())
