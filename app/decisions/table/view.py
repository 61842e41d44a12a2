"""The Table tab: the choice of columns, the rows with their answers, and the chosen row. Knows no model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFileDialog, QLineEdit

from app.batch.panel import RESULTS, TEACHING, BatchPanel, show_line, teaching
from app.decisions.table.detail import RowDetail
from app.decisions.table.rows import RowsView
from app.design.choice_box import ChoiceBox
from app.design.controls import Elided, button, flow_of, group, label
from app.design.fonts import px
from app.design.layouts import boxed, column_of
from app.state.decisions.board import RowBoard
from app.system.i18n import tr
from engine.tasks.decisions.table import PICTURE_COLUMNS, STATE_COLUMNS, CsvTable

CSV = "CSV (*.csv *.tsv *.txt)"
FILTERS = (("all", "All rows"), ("doubt", "Unsure"), ("wrong", "Wrong"))  # shown through ``tr``
ABOUT_WIDTH, PICTURE_WIDTH = 160, 120  # pixels at 100 %
MOST_DETAIL = 0.36  # share of the height for the chosen row


class DecisionTable(BatchPanel):
    """The tab. Emits what the user asks for; the decider passes in state and results."""

    opened = Signal(object)  # the Path of a table
    written = Signal(object)  # the Path to write the results to
    row_chosen = Signal(int)

    def __init__(self) -> None:
        tip = tr("Ask the questions about each row (Ctrl+Return)")
        run = button(tr("Decide all rows"), role="primary", tip=tip)
        super().__init__(run, tr("Stop deciding rows"), tr("Rows decided"))
        self.saver.folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
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
        self.about.setAccessibleName(tr("Column of the texts"))
        self.about.setToolTip(
            tr("The column that the questions are about, or a text with columns in it: {name} has {coins} coins.")
        )
        self.about.setFixedWidth(px(ABOUT_WIDTH))
        self.pictures = ChoiceBox()
        self.pictures.setAccessibleName(tr("Column of the pictures"))
        self.pictures.setFixedWidth(px(PICTURE_WIDTH))
        self.filter = ChoiceBox()
        self.filter.setAccessibleName(tr("Which rows are shown"))
        for value, title in FILTERS:
            self.filter.addItem(tr(title), value)
        self.export = button(tr("Save the results…"), tr("Save the results as CSV"), clicked=self._ask_target)
        self.asked = Elided("caption")
        self.rows = RowsView()
        self.detail = RowDetail()
        self.open.clicked.connect(self._ask_file)
        self.pictures.activated.connect(self._choose_pictures)
        self.rows.chosen.connect(self._choose)

    def _lay_out(self) -> None:
        self._about = group(label(tr("Text")), self.about)
        self._pictures = group(label(tr("Picture")), self.pictures)
        self._filter = group(label(tr("Show")), self.filter)
        parts = (group(self.open), self._about, self._pictures, self.buttons, self._filter, group(self.export))
        controls = flow_of(*parts, gap=16)
        lead = tr(
            "Ask the same questions about each row of a table: open a CSV file, choose the column with the text, "
            "and decide. If a column named like a question holds the right answers, you see the accuracy, and under "
            "Calibration how far to trust the probabilities."
        )
        self.sample = button(tr("Try an example"), tr("Open an example table with right answers"))
        self.add_pages(teaching(lead, self.sample), boxed(column_of((self.rows, 1), self.detail, spacing=8)))
        lines = (self.asked, self.progress, self.fault, self.message)
        self.setLayout(column_of(controls, *lines, (self.pages, 1), margins=(16, 12, 16, 12), spacing=8))

    @property
    def wanted(self) -> str | None:
        """The column of the states, or a template. If none is chosen: empty with a picture column, else None."""
        return self.about.currentText().strip() or (None if self.wanted_pictures is None else "")

    @property
    def wanted_pictures(self) -> str | None:
        """The column of the pictures; None if none is chosen."""
        name = self.pictures.currentData()
        return name if isinstance(name, str) else None

    def show_table(self, table: CsvTable | None) -> None:
        """Shows another table, without answers."""
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
        self.pages.setCurrentIndex(TEACHING if table is None else RESULTS)
        self.detail.hide()
        self.show_fault("")
        self._show_state(is_on=False, reason="")

    def _choose_columns(self, table: CsvTable) -> None:
        """Chooses the columns of states and pictures by their usual names."""
        shown = None if self._blind else _first(PICTURE_COLUMNS, table.columns)
        self.pictures.setCurrentIndex(0 if shown is None else self.pictures.findData(shown))
        usual = _first(STATE_COLUMNS, table.columns) or (table.columns[0] if shown is None else "")
        self.about.setCurrentText(usual)

    @Slot()
    def _choose_pictures(self) -> None:
        """Clears the state column if it is now the picture column, whose file names are no states."""
        if self.wanted == self.wanted_pictures:
            self.about.setCurrentText("")

    def show_blind(self, reason: str) -> None:
        """Disables the picture column with a reason; empty enables it."""
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

    def begin(self, board: RowBoard) -> None:
        """Shows a table whose rows are about to be decided."""
        self._board = board
        self.rows.rows.show_table(board.table, board)
        self._arrange(board.table)
        self.filter.setCurrentIndex(0)
        self.detail.hide()
        self.show_fault("\n".join(board.label_problems))

    def _arrange(self, table: CsvTable) -> None:
        state = table.columns.index(self.wanted) if self.wanted in table.columns else -1
        self.rows.arrange_columns(state, len(table.columns))

    def refresh(self, rows: Collection[int]) -> None:
        """Redraws rows with new answers. While rows are decided, the view has the table's own order."""
        self.rows.rows.refresh(min(rows), max(rows))

    def show_board(self, board: RowBoard) -> None:
        """Shows the same answers at another temperature."""
        self._board = board
        self.rows.rows.show_board(board)

    def show_doing(self, *, is_on: bool, reason: str, message: str) -> None:
        """Shows whether rows are being decided, why none can be (``reason``), and the progress (``message``)."""
        hidden = self._table is not None and _first(PICTURE_COLUMNS, self._table.columns)
        show_line(self.message, message or reason or (self._blind if hidden else ""))
        self._show_state(is_on=is_on, reason=reason)

    def _show_state(self, *, is_on: bool, reason: str) -> None:
        has_table, board = self._table is not None, self._board
        for part in (self._about, self._pictures, self._filter, self.export, self.asked):
            part.setVisible(has_table)
        done, total = (0, 0) if board is None else (board.done, len(board))
        self.show_running(is_on=is_on, obstacle=reason, done=done, total=total)
        self.buttons.setVisible(has_table)
        for control in (self.open, self.about):
            control.setEnabled(not is_on)
        self.pictures.setEnabled(not is_on and not self._blind)
        self.progress.setVisible(is_on)
        self.export.setEnabled(done > 0 and not is_on)
        self.filter.setEnabled(board is not None and not is_on)

    @Slot(int)
    def _choose(self, row: int) -> None:
        board = self._board
        self.detail.setVisible(row >= 0 and board is not None)
        if row >= 0 and board is not None:
            self.detail.show_row(board, row)
            self.row_chosen.emit(row)

    @Slot()
    def _ask_file(self) -> None:
        found = QFileDialog.getOpenFileName(self.window(), tr("Open a table"), self.saver.folder, CSV)[0]
        if found:
            self.saver.folder = str(Path(found).parent)
            self.opened.emit(Path(found))

    @Slot()
    def _ask_target(self) -> None:
        name = "answers" if self._table is None else f"{Path(self._table.name).stem}-answers"
        path = self.saver.target(tr("Save the results"), name, "csv")
        if path is not None:
            self.written.emit(path)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.detail.fit(round(MOST_DETAIL * self.height()))


def _first(wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    """Returns the first of the wanted names that is a column; None if none is."""
    return next((name for name in wanted if name in columns), None)
