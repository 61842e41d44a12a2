"""The controls within a text: a copy button on each program, and a scroll bar under each wide box."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QPoint, Qt, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton, QScrollBar, QWidget

from app.chat.prose.piece import Piece
from app.design.controls import button, discard
from app.system.i18n import tr

FROM_EDGE = 11  # pixels between a button and the right end of its box


class Controls(QObject):
    """Manages the controls, which are children of ``host``; ``host`` paints the text itself."""

    def __init__(self, host: QWidget) -> None:
        super().__init__(host)
        self._host = host
        self._buttons: list[tuple[Piece, QPushButton]] = []
        self._bars: list[tuple[Piece, QScrollBar]] = []
        self._seen = 0  # number of pieces that have their buttons

    def in_order(self, pieces: Sequence[Piece]) -> list[QWidget]:
        places = {id(piece): number for number, piece in enumerate(pieces)}
        boxes: list[tuple[int, QWidget]] = [(places[id(piece)], made) for piece, made in self._buttons]
        boxes += [(places[id(piece)], made) for piece, made in self._bars]
        return [made for _, made in sorted(boxes, key=lambda box: box[0])]

    def clear(self) -> None:
        for _, made in (*self._buttons, *self._bars):
            discard(made)
        self._buttons, self._bars, self._seen = [], [], 0

    def add_buttons(self, pieces: Sequence[Piece]) -> None:
        """Adds copy buttons to the programs that were read since the last call."""
        for piece in pieces[self._seen :]:
            if piece.code is not None:
                language = piece.code.language
                said = tr("Copy code, {language}", language=language) if language else tr("Copy code")
                made = button(tr("Copy"), said, clicked=self._copy_code)
                made.setParent(self._host)
                self._buttons.append((piece, made))
        self._seen = len(pieces)

    def put(self, shown: Sequence[Piece]) -> bool:
        """Moves all controls to their places in the layout. Returns True if a scroll bar was added."""
        self._put_buttons()
        known = {id(piece): bar for piece, bar in self._bars}
        for piece in shown:
            bar = known.get(id(piece))
            if piece.overflow and bar is None:
                bar = self._add_bar(piece)
            if bar is not None and (bar.geometry() != piece.bar_rect() or bar.maximum() != piece.overflow):
                bar.setVisible(bool(piece.overflow))
                bar.setRange(0, piece.overflow)
                bar.setPageStep(piece.inner.width())
                bar.setSingleStep(24)
                bar.setGeometry(piece.bar_rect())
        return len(self._bars) > len(known)

    def scroll(self, point: QPoint, by: int) -> bool:
        """Scrolls the wide box at a point sideways, by pixels. Returns True if there is one."""
        for piece, bar in self._bars:
            if piece.overflow and piece.rect.contains(point):
                bar.setValue(bar.value() - by)
                return True
        return False

    def _put_buttons(self) -> None:
        for piece, made in self._buttons:
            size = made.sizeHint()
            top = piece.rect.top() + (piece.header - size.height()) // 2
            made.setGeometry(piece.rect.right() - size.width() - FROM_EDGE, top, size.width(), size.height())
            if made.isHidden() != piece.rect.isEmpty():
                made.setVisible(not piece.rect.isEmpty())

    def _add_bar(self, piece: Piece) -> QScrollBar:
        bar = QScrollBar(Qt.Orientation.Horizontal, self._host)
        bar.setAccessibleName(tr("Scroll the code sideways") if piece.code is not None else tr("Scroll sideways"))
        bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        bar.valueChanged.connect(self._bar_moved)
        self._bars.append((piece, bar))
        return bar

    @Slot()
    def _bar_moved(self) -> None:
        for piece, bar in self._bars:
            if piece.scrolled != bar.value():
                piece.scrolled = bar.value()
                self._host.update(piece.rect)

    @Slot()
    def _copy_code(self) -> None:
        for piece, made in self._buttons:
            if made is self.sender() and piece.code is not None:
                QGuiApplication.clipboard().setText(piece.code.text)
                made.setText(tr("Copied"))
                self._put_buttons()
