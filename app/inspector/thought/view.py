"""The controls and the result of testing a thought with noise. Runs nothing itself."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QGridLayout, QLabel, QSpinBox, QWidget

from app.design.controls import button, label
from app.design.layouts import STRETCH, column_of, row_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.settings.fields import SeedBox
from app.system.i18n import tr

MOST_TRIES = 100


class ThoughtView(QWidget):
    """The share of noise, the number of tries, and the result. ``block`` sets why nothing can run now."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Test of the thought"))
        self.share, self.tries, self.seed = QSpinBox(), QSpinBox(), SeedBox()
        self.share.setRange(1, 100)
        self.share.setValue(50)
        self.share.setSuffix(tr(" %"))
        self.tries.setRange(1, MOST_TRIES)
        self.tries.setValue(8)
        self.run = button(tr("Replace by noise"), tr("Replace a share of the thought by noise and run"), role="primary")
        self.stop = button(tr("Stop"), tr("Stop the test of the thought"))
        self.result = label("", "setting", wrap=True, selectable=True)
        self.reason = label("", "caption", wrap=True)
        self.problem = label("", "error", wrap=True)
        self._lay_out()
        self.say("")
        self.block("")
        self.set_running(False)

    def _lay_out(self) -> None:
        introduction = tr(
            "A share of the thought is replaced by random tokens, and the answer is written again with the same seed. "
            "It has changed if it reads differently. All tries are kept as versions of this run."
        )
        grid = QGridLayout()
        grid.setHorizontalSpacing(SPACE_4)
        grid.setVerticalSpacing(SPACE_1)
        rows = (
            (tr("Share that becomes noise"), self.share),
            (tr("Tries"), self.tries),
            (tr("Seed of the noise"), self.seed),
        )
        for row, (name, box) in enumerate(rows):
            grid.addWidget(label(name, "caption"), row, 0)
            grid.addWidget(box, row, 1)
            box.setAccessibleName(name)
        grid.setColumnStretch(1, 1)
        buttons = row_of(self.run, self.stop, STRETCH, spacing=SPACE_2)
        column = column_of(
            label(tr("Does the answer depend on the thought?"), "setting", wrap=True),
            label(introduction, "caption", wrap=True),
            grid,
            buttons,
            self.reason,
            self.result,
            self.problem,
            STRETCH,
            margins=(SPACE_4, SPACE_4, SPACE_4, SPACE_4),
            spacing=SPACE_2,
        )
        self.setLayout(column)
        column.setAlignment(Qt.AlignmentFlag.AlignTop)

    def block(self, reason: str) -> None:
        """Sets the reason why no test can run now; empty if it can."""
        self._set(self.reason, reason)
        self.run.setEnabled(not reason)
        self.run.setToolTip(reason)

    @Slot(bool)
    def set_running(self, running: bool) -> None:
        """Switches the controls to running tests, or back to the state set by ``block``."""
        self.stop.setEnabled(running)
        self.run.setEnabled(not running and not self.reason.text())
        for part in (self.share, self.tries, self.seed):
            part.setEnabled(not running)

    def say(self, result: str, problem: str = "") -> None:
        """Shows the progress or the result, and a problem."""
        self._set(self.result, result)
        self._set(self.problem, problem[:1].upper() + problem[1:])

    @staticmethod
    def _set(text: QLabel, words: str) -> None:
        text.setText(words)
        text.setVisible(bool(words))
