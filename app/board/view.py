"""The widget of a board that shows a frame of a run. It accepts no input of digits and starts no runs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRect, QSize, Qt, Slot
from PySide6.QtGui import QGuiApplication, QKeyEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.board import keys, words
from app.board.geometry import BoardGeometry
from app.board.glyphs import BoardGlyphs, Drawn
from app.board.paint import BoardPaintOptions, paint_board, texts
from app.canvas.accessibility import expose_cells
from app.canvas.grid_view import GridView
from app.design import themes
from app.design.tokens import Theme, color
from app.state.run.canvas import CellState
from app.state.sudoku.board import EMPTY, SIZE
from app.state.sudoku.solve_frame import SolveFrame, entered
from app.system.i18n import tr

LEAST, PREFERRED = 280, 560
_LOCKED = (CellState.ACCEPTED, CellState.SETTLED, CellState.GIVEN)


class FrameView(GridView):
    """A square board centred in the widget; without a frame it is empty."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._glyphs = BoardGlyphs()
        self._run: SolveFrame | None = None
        self._blank = entered(EMPTY.cells)
        self._shares: Sequence[float] | None = None
        self._doubts: frozenset[int] = frozenset()  # cells that the user should check, while no run is shown
        self._drawn: list[Drawn] | None = None  # cached texts; None after a change
        self._drawn_in: Theme | None = None
        self._geometry = BoardGeometry.within(PREFERRED, PREFERRED)
        self._grow_by_width(QSizePolicy.Policy.Expanding)
        self.setAccessibleName(tr("Sudoku board"))
        expose_cells(self)

    @property
    def frame(self) -> SolveFrame | None:
        """The shown frame of a run; None if there is none."""
        return self._run

    @property
    def shown(self) -> SolveFrame:
        """The painted frame: that of the run, or an empty board."""
        return self._blank if self._run is None else self._run

    def set_frame(self, frame: SolveFrame | None) -> None:
        """Shows a frame of a run; None shows an empty board."""
        before, self._run = self._run, frame
        if before is frame:
            return
        if before is not None and frame is not None and before.puzzle == frame.puzzle and frame.step >= before.step:
            self._fade_changes(before, frame)  # if no cell has changed, an earlier tint continues
        else:
            self._stop_fade()
        self._describe()
        self._redraw()

    def set_shares(self, shares: Sequence[float] | None) -> None:
        """Colours the cells by their shares of the colour scale (NaN for no colour); None shows only the states."""
        self._shares = shares
        self._redraw()

    @property
    def grid(self) -> BoardGeometry:
        return self._geometry

    def cell_name(self, index: int) -> str:
        return words.of_cell(self.shown, index)

    def cell_value(self, index: int) -> str:
        cell = self.shown.cells[index]
        return cell.digit or cell.given

    def cell_details(self, index: int) -> list[str]:
        return words.details(self.shown, index)

    @Slot()
    def copy(self) -> None:
        """Copies the grid that the run wrote to the clipboard, as 81 characters."""
        QGuiApplication.clipboard().setText(self.shown.answer)

    def _fade_changes(self, before: SolveFrame, now: SolveFrame) -> None:
        changed: dict[int, CellState] = {}
        for index, (old, new) in enumerate(zip(before.cells, now.cells, strict=True)):
            melted = new.state == CellState.REMELTED != old.state
            if melted or (new.state == CellState.ACCEPTED and old.state not in _LOCKED):
                changed[index] = new.state
        self._start_fade(changed)

    def sizeHint(self) -> QSize:
        return QSize(PREFERRED, PREFERRED)

    def minimumSizeHint(self) -> QSize:
        return QSize(LEAST, LEAST)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return width

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._geometry = BoardGeometry.within(self.width(), self.height())
        self._glyphs = BoardGlyphs()
        self._redraw()

    def _redraw(self) -> None:
        self._drawn = None
        self.update()

    def _paint(self, painter: QPainter, area: QRect) -> None:
        theme = themes.current()
        painter.fillRect(area, color(theme.surface))
        doubts = self._doubts if self._run is None else ()
        options = BoardPaintOptions(
            self._selected, self._hovered, self.hasFocus(), self._tint, self._tinted, self._shares, doubts
        )
        if self._drawn is None or self._drawn_in is not theme:
            self._drawn = texts(self._geometry, self.shown, theme, self._glyphs, self._shares, doubts)
            self._drawn_in = theme
        paint_board(painter, self._geometry, self.shown, theme, self._glyphs, options, self._drawn)
        if self.hasFocus() and self._selected < 0:
            painter.setPen(QPen(color(theme.focus), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            side = self._geometry.side
            painter.drawRect(QRect(self._geometry.left, self._geometry.top, side, side).adjusted(-3, -3, 3, 3))

    def _describe(self) -> None:
        text = words.of_board(self.shown)
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)

    def _hover(self, index: int) -> None:
        super()._hover(index if 0 <= index < SIZE else -1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        place = keys.place_of(event, max(self._selected, 0))
        if keys.edit_of(event) == "copy":
            self.copy()
        elif place is not None:
            self._select(place if self._selected >= 0 else 0)
        elif event.key() == Qt.Key.Key_Escape and self._selected >= 0:
            self._select(-1)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.ShortcutOverride and self._wants(event):
            event.accept()  # takes precedence over a shortcut of the window with these keys
            return True
        return super().event(event)

    def _wants(self, event: QKeyEvent) -> bool:
        return keys.edit_of(event) == "copy" or keys.place_of(event, 0) is not None
