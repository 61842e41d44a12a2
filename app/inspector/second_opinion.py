"""A second opinion on a finished text: its model reads it from left to right. Reads nothing itself."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.design.controls import button, label
from app.design.layouts import column_of
from app.design.tokens import SPACE_2
from app.system.i18n import tr


class SecondOpinion(QWidget):
    """Asks for the reading by ``asked``; the canvas shows it as the layer of causal probability."""

    asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Second opinion"))
        self.read = button(tr("Read it"), tr("Read the text from left to right"), role="plain", clicked=self.asked.emit)
        self.reason = label("", "caption", wrap=True)
        self.reason.setAccessibleName(tr("What stands in the way, or comes first"))
        self.problem = label("", "error", wrap=True)
        teaching = label(
            tr(
                "The model reads the finished text from left to right. Tokens that it finds unlikely are coloured. "
                "The small models that come with Safelight were not trained for it: they doubt nearly every token."
            ),
            "caption",
            wrap=True,
        )
        title = label(tr("Second opinion"), "setting", wrap=True)
        self.setLayout(column_of(title, teaching, self.read, self.reason, self.problem, spacing=SPACE_2))
        self.show_problem("")

    def set_refusal(self, reason: str, needed: str = "") -> None:
        """Sets why the text cannot be read now; empty if it can. ``needed`` is the model to load first."""
        self.reason.setText(tr("{model} is loaded first.", model=needed) if needed else reason)
        self.reason.setVisible(bool(self.reason.text()))
        self.read.setEnabled(not reason or bool(needed))

    def show_problem(self, text: str) -> None:
        """Shows why a reading failed; an empty text removes the message."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))
