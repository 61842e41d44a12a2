"""The table of a batch's prompts with each lane's verdict, and the answers to the selected prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSize,
    Qt,
)
from PySide6.QtWidgets import QHeaderView, QLabel, QWidget

from app.design import themes
from app.design.controls import label, scroller
from app.design.fonts import px
from app.design.layouts import boxed, column_of
from app.design.row_table import RowTable
from app.design.tokens import color
from app.pictures.row import PictureRow
from app.race.words import VERDICTS, group_title
from app.state.race.scores import RaceResult
from app.system.i18n import tr

VERDICT_WIDTH = 40  # pixels at 100 %
LEAST_WIDTH, LEAST_HEIGHT = 240, 120
LONGEST = 160  # characters of a prompt in its row
LONGEST_SHOWN = 2_000  # characters of a text in the detail view

Index = QModelIndex | QPersistentModelIndex
NOWHERE = QModelIndex()
Answers = dict[int, RaceResult]
"""The results of one prompt, by lane."""


class AnswersModel(QAbstractTableModel):
    """A table model with a row for each prompt: its text, and each lane's verdict."""

    def __init__(self) -> None:
        super().__init__()
        self._titles: Sequence[str] = ()
        self._rows: list[Answers] = []

    def begin(self, titles: Sequence[str]) -> None:
        """Clears the rows and sets the lanes' titles."""
        self.beginResetModel()
        self._titles, self._rows = titles, []
        self.endResetModel()

    def set_titles(self, titles: Sequence[str]) -> None:
        """Renames the lanes; the rows stay."""
        self._titles = titles
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 1, len(titles))

    def add(self, rows: Sequence[Answers]) -> None:
        """Appends prompts, each with at least one answer."""
        self.beginInsertRows(NOWHERE, len(self._rows), len(self._rows) + len(rows) - 1)
        self._rows += rows
        self.endInsertRows()

    def answers(self, row: int) -> Answers:
        """Returns the results of the prompt in a row."""
        return self._rows[row]

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else 1 + len(self._titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation == Qt.Orientation.Vertical:
            if role != Qt.ItemDataRole.DisplayRole or section >= len(self._rows):
                return None
            return str(next(iter(self._rows[section].values())).index + 1)
        if role == Qt.ItemDataRole.ToolTipRole and section:
            return self._titles[section - 1]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return (
                Qt.AlignmentFlag.AlignCenter if section else Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
            )
        if role == Qt.ItemDataRole.DisplayRole:
            return str(section) if section else tr("Prompt")
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        answers, lane = self._rows[index.row()], index.column() - 1
        first, answer = next(iter(answers.values())), answers.get(lane)
        match role:
            case Qt.ItemDataRole.DisplayRole if lane < 0:
                return " ".join(first.prompt[: 2 * LONGEST].split())[:LONGEST]
            case Qt.ItemDataRole.DisplayRole:
                return "" if answer is None else VERDICTS[answer.exact]
            case Qt.ItemDataRole.ToolTipRole if lane < 0:
                return group_title(first.group)
            case Qt.ItemDataRole.AccessibleTextRole if lane >= 0:
                return tr("lane {lane}: {verdict}", lane=lane + 1, verdict=verdict_words(answer))
            case Qt.ItemDataRole.TextAlignmentRole if lane >= 0:
                return Qt.AlignmentFlag.AlignCenter
            case Qt.ItemDataRole.ForegroundRole if answer is not None and answer.exact is False:
                return color(themes.current().conflict)
        return None


def verdict_words(answer: RaceResult | None) -> str:
    """Returns the verdict on an answer in words: right, wrong, not checked, or no answer."""
    if answer is None:
        return tr("no answer")
    return {True: tr("✓ right"), False: tr("✗ wrong"), None: tr("not checked")}[answer.exact]


class AnswersView(RowTable):
    """The table view. ``chosen`` emits the selected row, -1 for none."""

    def __init__(self) -> None:
        self.answers = AnswersModel()
        super().__init__(self.answers, tr("Prompts"))
        self.answers.modelReset.connect(self._share_width)
        self.fit()

    def _share_width(self) -> None:
        header = self.horizontalHeader()
        for column in range(self.answers.columnCount()):
            is_prompt = column == 0
            mode = QHeaderView.ResizeMode.Stretch if is_prompt else QHeaderView.ResizeMode.Fixed
            header.setSectionResizeMode(column, mode)
            if not is_prompt:
                header.resizeSection(column, px(VERDICT_WIDTH))

    def sizeHint(self) -> QSize:
        return QSize(px(LEAST_WIDTH), px(LEAST_HEIGHT))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def fit(self) -> None:
        super().fit()
        self._share_width()


class AnswerDetail(QWidget):
    """One prompt with its pictures, and each lane's answer."""

    def __init__(self) -> None:
        super().__init__()
        self._column = column_of(spacing=4)
        self._area = scroller(boxed(self._column))
        self.pictures = PictureRow()
        self.setLayout(column_of(self.pictures, self._area, spacing=8))
        self.texts: list[QLabel] = []

    def show_answers(self, titles: Sequence[str], answers: Answers) -> None:
        """Shows a prompt and its answers, each text cut to ``LONGEST_SHOWN`` characters."""
        while (item := self._column.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        self.texts = []
        first = next(iter(answers.values()))
        self.pictures.show_files(first.pictures)
        self._add(tr("Prompt {number} · {group}", number=first.index + 1, group=group_title(first.group)), first.prompt)
        for place, title in enumerate(titles):
            answer = answers.get(place)
            name = tr("{number}  {lane} · {verdict}", number=place + 1, lane=title, verdict=verdict_words(answer))
            self._add(name, "" if answer is None else answer.text)
        self._column.addStretch(1)

    def _add(self, name: str, text: str) -> None:
        if self.texts:
            self._column.addSpacing(8)
        self._column.addWidget(label(name, "caption", wrap=True))
        shown = label("", wrap=True, selectable=True)
        shown.setText(text[:LONGEST_SHOWN] or tr("Nothing was written."))
        shown.setAccessibleName(name)
        self._column.addWidget(shown)
        self.texts.append(shown)
