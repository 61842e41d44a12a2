"""The Calibration tab: accuracy, reliability, and a temperature fitted to a table's labels. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.decisions.calibration.plot import ReliabilityPlot, examples_text, legend
from app.decisions.words import percent
from app.design.choice_box import ChoiceBox
from app.design.column_page import ColumnPage
from app.design.controls import button, label
from app.design.layouts import STRETCH, Gap, column_of, row_of
from app.state.decisions.trust import Trust
from app.system.i18n import tr
from engine.tasks.decisions.calibration import LEAST_EXAMPLES

ALL = -1  # in place of a question's index


class CalibrationView(ColumnPage):
    """The tab. ``use_asked``: the fitted temperature is to be used."""

    use_asked = Signal(float)  # a temperature

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Calibration"))
        self._trust: Trust | None = None
        self.picker = ChoiceBox()
        self.picker.setAccessibleName(tr("Question"))
        self.summary = label("", "fact", wrap=True)
        self.plots = [ReliabilityPlot(), ReliabilityPlot()]
        self.titles = [label("", "side", wrap=True), label("", "side", wrap=True)]
        self.figures: dict[str, list[QLabel]] = {}
        self.use = button("", role="primary", clicked=self._use)
        self._shown = QWidget()
        self._lay_out()
        self.show_nothing("")

    def _lay_out(self) -> None:
        purpose = tr(
            "A probability of 80 % is right if eight of ten such answers are right. One temperature, fitted to rows "
            "whose right answers are known, corrects a model's probabilities. The likeliest option stays the same."
        )
        plots = QGridLayout()
        plots.setHorizontalSpacing(32)
        for place, (title, plot) in enumerate(zip(self.titles, self.plots, strict=True)):
            plots.addWidget(title, 0, place)
            plots.addWidget(plot, 1, place)
        parts = (plots, label(legend(), "caption", wrap=True), Gap(8), self._figures())
        self._shown.setLayout(column_of(*parts, margins=(0, 8, 0, 0), spacing=8))
        head = (label(tr("Calibration"), "title"), label(purpose, "fact", wrap=True), Gap(8))
        self.show_column(*head, row_of(self.picker, self.use, STRETCH, spacing=16), self.summary, self._shown)

    def _figures(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(32)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(3, 1)
        for place, head in enumerate((tr("Before"), tr("After")), start=1):
            grid.addWidget(label(head, "caption"), 0, place, Qt.AlignmentFlag.AlignRight)
        meanings = (
            ("accuracy", tr("Accuracy"), tr("share of answers that are right")),
            (
                "ece",
                tr("Calibration error (ECE)"),
                tr("how far probabilities are from the share of right answers; less is better"),
            ),
            ("brier", tr("Brier score"), tr("squared distance to the right answers, 0 to 2; less is better")),
            ("nll", tr("Log loss, nats"), tr("surprise at the right answers; less is better")),
        )
        for row, (key, name, meaning) in enumerate(meanings, start=1):
            self.figures[key] = [label("", "setting"), label("", "setting")]
            grid.addWidget(label(name, "setting"), row, 0)
            for place, figure in enumerate(self.figures[key], start=1):
                grid.addWidget(figure, row, place, Qt.AlignmentFlag.AlignRight)
            grid.addWidget(label(meaning, "caption", wrap=True), row, 3)
        return grid

    @property
    def question(self) -> int | None:
        """The index of the picked question; None for all together."""
        found = self.picker.currentData()
        return None if found in (None, ALL) else int(found)

    def offer(self, questions: Sequence[tuple[int, str]]) -> None:
        """Offers the questions that have labels, by index and name."""
        before = self.picker.currentData()
        self.picker.clear()
        if len(questions) > 1:
            self.picker.addItem(tr("All questions"), ALL)
        for place, name in questions:
            self.picker.addItem(name, place)
        self.picker.setCurrentIndex(max(0, self.picker.findData(before)))
        self.picker.setVisible(len(questions) > 1)

    def show_nothing(self, problem: str) -> None:
        """Shows a problem, or how to get a calibration, in place of the plots."""
        self._trust = None
        self._shown.hide()
        self.use.hide()
        self.summary.setText(
            problem
            or tr(
                "First decide a table with a column of right answers, named like the question, with _label after it or "
                "not. At least {count} right answers are needed.",
                count=LEAST_EXAMPLES,
            )
        )

    def show_trust(self, trust: Trust, temperature: float) -> None:
        """Shows the reliability before and after fitting; ``temperature`` is the one in use."""
        self._trust = trust
        self._shown.show()
        fitted = f"{trust.temperature:.2f}"
        count, measured = examples_text(trust.fitted), f"{trust.after.examples:,}"
        text = tr("Fitted to {fitted} and measured on the same ones, as there are few.", fitted=count)
        if trust.is_apart:
            text = tr("Fitted to {fitted}, and measured on {measured} others.", fitted=count, measured=measured)
        if not trust.is_fitted:
            text = tr("All of {fitted} are right, so there is nothing to fit: temperature 1 stays.", fitted=count)
            if trust.is_apart:
                text += tr(" The figures below are of {measured} others.", measured=measured)
        self.summary.setText(text)
        for part in (self.titles[1], self.plots[1]):
            part.setVisible(trust.is_fitted)
        titles = (tr("The model's own, temperature 1"), tr("At temperature {temperature}", temperature=fitted))
        for title, text, plot, found in zip(self.titles, titles, self.plots, (trust.before, trust.after), strict=True):
            title.setText(text)
            plot.show_reliability(found, text)
        for place, found in enumerate((trust.before, trust.after)):
            self.figures["accuracy"][place].setText(percent(found.accuracy))
            self.figures["ece"][place].setText(percent(found.ece))
            self.figures["brier"][place].setText(f"{found.brier:.3f}")
            self.figures["nll"][place].setText(f"{found.nll:.3f}")
        is_used = round(temperature, 2) == round(trust.temperature, 2)
        self.use.setVisible(trust.is_fitted)
        self.use.setEnabled(not is_used)
        self.use.setText(
            tr("Temperature {temperature} is used", temperature=fitted)
            if is_used
            else tr("Use temperature {temperature}", temperature=fitted)
        )
        self.use.setAccessibleName(self.use.text())

    @Slot()
    def _use(self) -> None:
        if self._trust is not None:
            self.use_asked.emit(round(self._trust.temperature, 2))
