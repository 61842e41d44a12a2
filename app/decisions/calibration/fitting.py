"""Fits a temperature to the labelled answers of a table, in a thread. Knows no model."""

from __future__ import annotations

import functools

from PySide6.QtCore import QObject, Slot

from app.bridge.background import Background
from app.decisions.calibration.view import CalibrationView
from app.state.decisions.board import RowBoard
from app.state.decisions.trust import Trust, trust_of


class TrustFitter(QObject):
    """Fits a temperature to a table's answers, again after each change of the answers or the chosen question."""

    def __init__(self, view: CalibrationView, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._board: RowBoard | None = None
        self._temperature = 1.0
        self.trust: Trust | None = None
        self._fitting = Background(self, self._show, self._refuse)
        view.picker.activated.connect(self._fit)

    @property
    def is_busy(self) -> bool:
        return self._fitting.is_busy

    def follow(self, board: RowBoard | None) -> None:
        """Uses these complete answers; None for no answers."""
        self._board, self.trust = board, None
        self._view.offer([] if board is None else [(place, board.questions[place].name) for place in board.labelled])
        self._fit()

    def use(self, temperature: float) -> None:
        """Sets the temperature in use, which the view compares with the fitted one."""
        self._temperature = temperature
        if self.trust is not None:
            self._view.show_trust(self.trust, temperature)

    @Slot()
    def _fit(self) -> None:
        board, question = self._board, self._view.question
        if board is None or not board.labelled:
            self._fitting.drop()
            self._view.show_nothing("")
            return

        chosen = None if question is None else [question]
        self._fitting.ask(functools.partial(_fitted, board, chosen))

    @Slot(object)
    def _show(self, trust: Trust) -> None:
        self.trust = trust
        self._view.show_trust(trust, self._temperature)

    @Slot(str)
    def _refuse(self, problem: str) -> None:
        self.trust = None
        self._view.show_nothing(problem)


def _fitted(board: RowBoard, questions: list[int] | None) -> Trust:
    return trust_of(board.examples(questions))
