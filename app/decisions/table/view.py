"""A table whose rows are decided: what the questions are about, the rows, and the chosen one. Knows no model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QLineEdit,
    QProgressBar,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.decisions.table.detail import RowDetail
from app.decisions.table.rows import RowsView
from app.design.choice_box import ChoiceBox
from app.design.controls import Elided, FlowLayout, FocusGroup, button, group, label
from app.design.fonts import px
from app.state.decisions.board import Order, RowBoard
from app.system.i18n import tr
from engine.tasks.decisions.table import PICTURE_COLUMNS, STATE_COLUMNS, CsvTable

CSV = "CSV (*.csv *.tsv *.txt)"
FILTERS = (("all", "All rows"), ("doubt", "In doubt"), ("wrong", "Wrong"))  # shown through ``tr``
ABOUT_WIDTH, PICTURE_WIDTH = 160, 120  # pixels at 100 %
MOST_DETAIL = 0.36  # of the height, for the chosen row


class DecisionTable(QWidget):
    """Emits what is asked for; is told what there is."""

    opened = Signal(object)  # the Path of a table
    sample_asked = Signal()  # the example's table, with its questions
    run_asked = Signal()
    stop_asked = Signal()
    written = Signal(object)  # the Path that the results are to go to
    order_asked = Signal()
    row_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        self._table: CsvTable | None = None
        self._board: RowBoard | None = None
        self._blind = ""
        self._make_controls()
        self._lay_out()
        self.show_table(None)

    def _make_controls(self) -> None:
        self.open = button(tr("Open a table…"), tr("Open a table from a CSV file"), role="plain")
        self.about = ChoiceBox()
        self.about.setLineEdit(template := QLineEdit())
        template.setPlaceholderText(tr("none"))
        self.about.setInsertPolicy(ChoiceBox.InsertPolicy.NoInsert)
        self.about.setAccessibleName(tr("Column of the states"))
        self.about.setToolTip(
            tr("The column that the questions are about, or a text with columns in it: {name} has {coins} coins.")
        )
        self.about.setFixedWidth(px(ABOUT_WIDTH))
        self.pictures = ChoiceBox()
        self.pictures.setAccessibleName(tr("Column of the pictures"))
        self.pictures.setFixedWidth(px(PICTURE_WIDTH))
        tip = tr("Ask the questions about each row (Ctrl+Return)")
        self.run = button(tr("Decide all rows"), role="primary", tip=tip)
        self.stop = button(tr("Stop"), tr("Stop deciding rows"), role="plain")
        self.filter = ChoiceBox()
        self.filter.setAccessibleName(tr("Which rows are shown"))
        for value, title in FILTERS:
            self.filter.addItem(tr(title), value)
        self.export = button(tr("Save the results…"), tr("Save the results as CSV"))
        self.asked = Elided("caption")
        self.message = label("", "caption", wrap=True)
        self.problem = label("", "error", wrap=True)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(tr("Rows decided"))
        self.rows = RowsView()
        self.detail = RowDetail()
        self._buttons = FocusGroup(self.run, self.stop)
        self.open.clicked.connect(self._ask_file)
        self.run.clicked.connect(self.run_asked)
        self.stop.clicked.connect(self.stop_asked)
        self.export.clicked.connect(self._ask_target)
        self.pictures.activated.connect(self._choose_pictures)
        self.filter.activated.connect(self.order_asked)
        self.rows.sort_asked.connect(self.order_asked)
        self.rows.chosen.connect(self._choose)

    def _lay_out(self) -> None:
        controls = QWidget()
        flow = FlowLayout(controls, gap=16)
        self._about = group(label(tr("State")), self.about)
        self._pictures = group(label(tr("Picture")), self.pictures)
        self._filter = group(label(tr("Show")), self.filter)
        deciding = group(self.run, self.stop)
        for part in (group(self.open), self._about, self._pictures, deciding, self._filter, group(self.export)):
            flow.addWidget(part)
        policy = controls.sizePolicy()
        policy.setHeightForWidth(True)
        controls.setSizePolicy(policy)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(8)
        column.addWidget(controls)
        column.addWidget(self.asked)
        column.addWidget(self.progress)
        column.addWidget(self.problem)
        column.addWidget(self.message)
        self.pages = QStackedWidget()
        self.pages.addWidget(self._teaching())
        self.pages.addWidget(self._rows_and_detail())
        column.addWidget(self.pages, 1)

    def _teaching(self) -> QWidget:
        told = label(
            tr(
                "Ask the same questions about each row of a table: open a CSV file, say which column is the state, "
                "and decide. Columns named as a question hold its right answers, if there are any: then you see the "
                "accuracy, and under Calibration how far the probabilities can be trusted."
            ),
            wrap=True,
        )
        told.setMaximumWidth(px(560))
        self.sample = button(tr("Try an example"), tr("Open an example table with right answers"))
        self.sample.clicked.connect(self.sample_asked)
        nothing = QWidget()
        around = QVBoxLayout(nothing)
        around.setContentsMargins(0, 16, 0, 0)
        around.setSpacing(8)
        around.addWidget(told)
        around.addWidget(self.sample)
        around.addStretch(1)
        return nothing

    def _rows_and_detail(self) -> QWidget:
        made = QWidget()
        around = QVBoxLayout(made)
        around.setContentsMargins(0, 0, 0, 0)
        around.setSpacing(8)
        around.addWidget(self.rows, 1)
        around.addWidget(self.detail)
        return made

    # ---------------------------------------------------------------- a table

    @property
    def wanted(self) -> str | None:
        """The column of the states, or a template; where nothing is chosen None, and with pictures an empty text."""
        return self.about.currentText().strip() or (None if self.wanted_pictures is None else "")

    @property
    def wanted_pictures(self) -> str | None:
        """The column of the pictures; None for none."""
        name = self.pictures.currentData()
        return name if isinstance(name, str) else None

    def show_table(self, table: CsvTable | None) -> None:
        """Show another table, without answers."""
        self._table, self._board = table, None
        self.rows.rows.show_table(table, None)
        names = [] if table is None else [name for name in table.columns if name]
        self.about.clear()
        self.about.addItems(names)
        self.pictures.clear()
        self.pictures.addItem(tr("none"), None)
        for name in names:
            self.pictures.addItem(name, name)
        if table is not None:
            self._choose_columns(table)
            self._arrange(table)
        self.filter.setCurrentIndex(0)
        self.pages.setCurrentIndex(0 if table is None else 1)
        self.detail.hide()
        self.show_problem("")
        self._show_state(is_on=False, reason="")

    def _choose_columns(self, table: CsvTable) -> None:
        """The columns that are usually meant."""
        shown = None if self._blind else _first(PICTURE_COLUMNS, table.columns)
        self.pictures.setCurrentIndex(0 if shown is None else self.pictures.findData(shown))
        usual = _first(STATE_COLUMNS, table.columns) or (table.columns[0] if shown is None else "")
        self.about.setCurrentText(usual)

    @Slot()
    def _choose_pictures(self) -> None:
        """A column that names pictures is no text to ask about."""
        if self.wanted == self.wanted_pictures:
            self.about.setCurrentText("")

    def show_blind(self, reason: str) -> None:
        """Why the model sees no pictures; empty where it does."""
        is_other, self._blind = bool(reason) != bool(self._blind), reason
        self.pictures.setToolTip(
            reason or tr("The column with a picture's file in each row, by its path from the table's folder.")
        )
        if is_other and reason:
            self.pictures.setCurrentIndex(0)
        elif is_other and self._table is not None:
            named = _first(PICTURE_COLUMNS, self._table.columns)
            self.pictures.setCurrentIndex(max(0, self.pictures.findData(named)))
            self._choose_pictures()

    def show_asked(self, text: str) -> None:
        """What will be asked about each row."""
        self.asked.set_whole(text)

    def begin(self, board: RowBoard) -> None:
        """The rows are going to be decided."""
        self._board = board
        self.rows.rows.show_table(board.table, board)
        self._arrange(board.table)
        self.filter.setCurrentIndex(0)
        self.detail.hide()
        self.show_problem("\n".join(board.label_problems))

    def _arrange(self, table: CsvTable) -> None:
        state = table.columns.index(self.wanted) if self.wanted in table.columns else -1
        self.rows.arrange_columns(state, len(table.columns))

    def refresh(self, rows: Collection[int]) -> None:
        """Answers to these rows have come; while rows are decided, they stand as the table has them."""
        self.rows.rows.refresh(min(rows), max(rows))

    def show_board(self, board: RowBoard) -> None:
        """The same answers at another temperature."""
        self._board = board
        self.rows.rows.show_board(board)

    def show_order(self, order: Order) -> None:
        """Show these rows, in this order."""
        self.rows.rows.show_order(order)

    def show_problem(self, text: str) -> None:
        """What is wrong with the table; empty where nothing is."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    # ---------------------------------------------------------------- what can be done

    def show_doing(self, *, is_on: bool, reason: str, message: str) -> None:
        """Whether rows are being decided, why none can be, and how far it is."""
        hidden = self._table is not None and _first(PICTURE_COLUMNS, self._table.columns)
        self.message.setText(message or reason or (self._blind if hidden else ""))
        self.message.setVisible(bool(self.message.text()))
        self._show_state(is_on=is_on, reason=reason)

    def _show_state(self, *, is_on: bool, reason: str) -> None:
        has_table, board = self._table is not None, self._board
        for part in (self._about, self._pictures, self._filter, self.run, self.export, self.asked):
            part.setVisible(has_table)
        with self._buttons:
            self.stop.setVisible(is_on)
            self.run.setVisible(has_table and not is_on)
            self.run.setEnabled(not reason)
        for control in (self.open, self.about):
            control.setEnabled(not is_on)
        self.pictures.setEnabled(not is_on and not self._blind)
        self.progress.setVisible(is_on)
        if board is not None:
            self.progress.setMaximum(len(board))
            self.progress.setValue(board.done)
        self.export.setEnabled(board is not None and board.done > 0 and not is_on)
        self.filter.setEnabled(board is not None and not is_on)

    @Slot(int)
    def _choose(self, row: int) -> None:
        board = self._board
        self.detail.setVisible(row >= 0 and board is not None)
        if row >= 0 and board is not None:
            self.detail.show_row(board, row)
            self.row_chosen.emit(row)

    # ---------------------------------------------------------------- files

    @Slot()
    def _ask_file(self) -> None:
        found = QFileDialog.getOpenFileName(self.window(), tr("Open a table"), self._folder, CSV)[0]
        if found:
            self._folder = str(Path(found).parent)
            self.opened.emit(Path(found))

    @Slot()
    def _ask_target(self) -> None:
        name = "answers.csv" if self._table is None else f"{Path(self._table.name).stem}-answers.csv"
        target = str(Path(self._folder) / name)
        found = QFileDialog.getSaveFileName(self.window(), tr("Save the results"), target, "CSV (*.csv)")[0]
        if found:
            self._folder = str(Path(found).parent)
            self.written.emit(Path(found))

    # ---------------------------------------------------------------- looks

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.detail.fit(round(MOST_DETAIL * self.height()))


def _first(wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    """The first of these names that a column has."""
    return next((name for name in wanted if name in columns), None)
