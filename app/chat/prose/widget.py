"""Shows a text, Markdown or plain, as one widget: selection runs through all of it. Knows nothing of conversations.

Laid out once for a width. Only what is in sight is drawn. Nothing is loaded, whatever the text names.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt, Signal, Slot
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QFontMetrics,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QPushButton, QScrollBar, QSizePolicy, QToolTip, QWidget

from app.chat.prose.blocks import Quote
from app.chat.prose.document import Style
from app.chat.prose.links import ask_to_open
from app.chat.prose.parse import parse, verbatim
from app.chat.prose.piece import BETWEEN, Link, Piece, pieces
from app.chat.prose.rows import Row, flatten, formulas
from app.chat.prose.safe import safe
from app.chat.prose.typeset import typeset
from app.controls import button, chain_tabs
from app.language import tr
from app.theme import DARKROOM, TEXT_SMALL, Theme, color, px

PAD = 8
"""Left and right of the text, for the ring around it when it has the keyboard."""
MOST_SHOWN, MOST_LINES = 24_000, 800
"""Characters and lines of a text that are laid out before "Show all" is asked for."""
MOST_READ, MOST_LINES_READ = 120_000, 4_000
"""Beyond these, all of a text is shown without reading it as Markdown."""
MOST_DESCRIBED = 20_000
Place = tuple[int, int]  # piece, position in its document


def prepare(text: str, theme: Theme) -> Iterator[None]:
    """Do what takes time before a Markdown text is shown, a little with each ``next``; what is done is remembered."""
    rows = flatten(parse(shown_part(text)))
    yield
    style = Style.of(theme)
    for source, displayed in formulas(rows):
        typeset(source, displayed, style.pixels + (2 if displayed else 0), theme.ink)
        yield


def shown_part(text: str) -> str:
    """What is shown of a text at first: all of it, or whole lines from its beginning."""
    if text.count("\n") >= MOST_LINES:
        text = "\n".join(text.split("\n", MOST_LINES)[:MOST_LINES])
    if len(text) <= MOST_SHOWN:
        return text
    cut = text.rfind("\n", MOST_SHOWN // 2, MOST_SHOWN)
    return text[: cut if cut > 0 else MOST_SHOWN]


class Prose(QWidget):
    """``set_text`` shows a text. ``tab_stops`` are the widget and its buttons, in order."""

    link_asked = Signal(str)
    rebuilt = Signal()  # other buttons than before

    def __init__(self, name: str, theme: Theme = DARKROOM, *, markdown: bool = True, quoted: bool = False) -> None:
        super().__init__()
        self._text = ""
        self._markdown = markdown
        self._quoted = quoted  # set apart from other texts by a line beside it
        self._style = Style.of(theme)
        self._whole = False
        self._pieces: list[Piece] = []
        self._buttons: list[tuple[Piece, QPushButton]] = []
        self._bars: list[tuple[Piece, QScrollBar]] = []
        self._laid_for = -1
        self._height = 0
        self._anchor: Place = (0, 0)
        self._cursor: Place = (0, 0)
        self._links: list[tuple[int, Link]] | None = None  # found when first asked for
        self._ringed = -1
        self._pressed_link = ""
        self._by_keyboard = False
        self.show_all = button("", tr("Show all"), role="chip")
        self.show_all.clicked.connect(self._show_whole)
        self.show_all.setParent(self)
        self.show_all.hide()
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    # ---------------------------------------------------------------- what is shown

    def text(self) -> str:
        """The text as it was given: the Markdown source."""
        return self._text

    def set_text(self, text: str) -> None:
        """Show another text; nothing happens for the same one."""
        if text != self._text:
            self._text = text
            self._whole = False
            self.setAccessibleDescription(safe(text[:MOST_DESCRIBED]))
            self._build()

    def set_theme(self, theme: Theme) -> None:
        """Other colours, and the present size of text."""
        style = Style.of(theme)
        if style != self._style:
            self._style = style
            self._build()

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is laid out."""
        return tuple(row for piece in self._pieces for row in piece.rows)

    @property
    def pieces(self) -> list[Piece]:
        """The stretches of the text, in order."""
        return self._pieces

    @property
    def copy_buttons(self) -> list[QPushButton]:
        """One for each program."""
        return [made for _, made in self._buttons]

    def tab_stops(self) -> list[QWidget]:
        """The text, then what can be pressed in it."""
        boxes: list[tuple[int, QWidget]] = [(self._pieces.index(piece), made) for piece, made in self._buttons]
        boxes += [(self._pieces.index(piece), made) for piece, made in self._bars]
        return [self, *(made for _, made in sorted(boxes, key=lambda box: box[0])), self.show_all]

    def _build(self) -> None:
        shown = self._text if self._whole else shown_part(self._text)
        readable = self._markdown and len(shown) <= MOST_READ and shown.count("\n") <= MOST_LINES_READ
        blocks = parse(shown) if readable else verbatim(shown)
        self._pieces = pieces(flatten((Quote(blocks),) if self._quoted else blocks), self._style)
        for _, made in (*self._buttons, *self._bars):
            made.hide()
            made.deleteLater()
        self._buttons, self._bars, self._links = [], [], None
        self._anchor = self._cursor = (0, 0)
        self._ringed = -1
        for piece in self._pieces:
            if piece.code is not None:
                language = piece.code.language
                said = tr("Copy code, {language}", language=language) if language else tr("Copy code")
                made = button(tr("Copy"), said)
                made.setParent(self)
                made.clicked.connect(self._copy_code)
                made.show()
                self._buttons.append((piece, made))
        self.show_all.setVisible(len(shown) < len(self._text))
        if len(shown) < len(self._text):
            self.show_all.setText(tr("Show all {count} characters", count=f"{len(self._text):,}"))
            self.show_all.setAccessibleName(self.show_all.text())
        self._laid_for = -1
        if self.isVisible():
            self._lay_out(self.width())
            self._put_controls()
        self.rebuilt.emit()
        self.updateGeometry()
        self.update()

    @Slot()
    def _show_whole(self) -> None:
        self._whole = True
        self.setFocus()
        self._build()

    # ---------------------------------------------------------------- layout

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        self._lay_out(width)
        return self._height

    def sizeHint(self) -> QSize:
        return QSize(480, self._height)  # asks for no layout: only the width that it will get is worth one

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self._style.pixels)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._lay_out(self.width())
        self._put_controls()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out(self.width())
        self._put_controls()

    def _lay_out(self, width: int) -> None:
        if width == self._laid_for:
            return
        self._laid_for = width
        y = 0
        for number, piece in enumerate(self._pieces):
            y += BETWEEN if number else 0
            y += piece.place(PAD, y, max(80, width - 2 * PAD))
        if not self.show_all.isHidden():
            y += BETWEEN + self.show_all.sizeHint().height()
        self._height = y

    def _put_controls(self) -> None:
        """Buttons and scroll bars to where the layout for the present width has them."""
        for piece, made in self._buttons:
            size = made.sizeHint()
            top = piece.rect.top() + (piece.header - size.height()) // 2
            made.setGeometry(piece.rect.right() - size.width() - 11, top, size.width(), size.height())
        known = {id(piece): bar for piece, bar in self._bars}
        for piece in self._pieces:
            bar = known.get(id(piece))
            if piece.overflow and bar is None:
                bar = self._add_bar(piece)
            if bar is not None:
                bar.setVisible(bool(piece.overflow))
                bar.setRange(0, piece.overflow)
                bar.setPageStep(piece.inner.width())
                bar.setSingleStep(24)
                bar.setGeometry(piece.bar_rect())
        if not self.show_all.isHidden():
            size = self.show_all.sizeHint()
            self.show_all.setGeometry(PAD, self._height - size.height(), size.width(), size.height())

    def _add_bar(self, piece: Piece) -> QScrollBar:
        bar = QScrollBar(Qt.Orientation.Horizontal, self)
        bar.setAccessibleName(tr("Scroll the code sideways") if piece.code is not None else tr("Scroll sideways"))
        bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        bar.valueChanged.connect(self._bar_moved)
        self._bars.append((piece, bar))
        chain_tabs(self, self.tab_stops()[1:])
        return bar

    @Slot()
    def _bar_moved(self) -> None:
        for piece, bar in self._bars:
            if piece.scrolled != bar.value():
                piece.scrolled = bar.value()
                self.update(piece.rect)

    # ---------------------------------------------------------------- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        exposed = event.rect()
        first, last = self._selected_ends()
        ringed = self._ring()
        for number, piece in enumerate(self._pieces):
            if not piece.rect.intersects(exposed.adjusted(0, -24, 0, 24)):
                continue
            selected = None
            if first[0] <= number <= last[0] and first != last:
                selected = (first[1] if number == first[0] else 0, last[1] if number == last[0] else piece.end)
            link = ringed[1] if ringed is not None and ringed[0] == number else None
            piece.paint(painter, exposed, selected, link)
            if piece.code is not None:
                self._paint_header(painter, piece)
        if self.hasFocus() and self._by_keyboard and ringed is None:
            painter.setPen(color(self._style.theme.focus))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 4, 4)
        painter.end()

    def _paint_header(self, painter: QPainter, piece: Piece) -> None:
        font = self._style.font()
        font.setPixelSize(px(TEXT_SMALL))
        painter.setFont(font)
        painter.setPen(color(self._style.theme.faint_ink))
        area = QRect(piece.inner.left(), piece.rect.top(), piece.inner.width() - 64, piece.header)
        said = (piece.code.language if piece.code is not None else "") or tr("code")
        elided = QFontMetrics(font).elidedText(said, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, elided)

    # ---------------------------------------------------------------- selection

    def selected_text(self) -> str:
        """What is selected, as it is copied; empty without a selection."""
        first, last = self._selected_ends()
        if first == last:
            return ""
        parts = []
        for number in range(first[0], last[0] + 1):
            piece = self._pieces[number]
            start = first[1] if number == first[0] else 0
            parts.append(piece.copied(start, last[1] if number == last[0] else piece.end))
        return "\n\n".join(parts)

    @Slot()
    def select_all(self) -> None:
        """Select the whole text."""
        if self._pieces:
            self._anchor, self._cursor = (0, 0), (len(self._pieces) - 1, self._pieces[-1].end)
            self.update()

    @Slot()
    def copy(self) -> None:
        """Copy what is selected, or the source of all of it."""
        QGuiApplication.clipboard().setText(self.selected_text() or self._text)

    def _selected_ends(self) -> tuple[Place, Place]:
        return min(self._anchor, self._cursor), max(self._anchor, self._cursor)

    def _place_at(self, point: QPointF) -> Place:
        """The place nearest to a point."""
        if not self._pieces:
            return (0, 0)
        tops = (number for number, piece in enumerate(self._pieces) if point.y() <= piece.rect.bottom() + BETWEEN / 2)
        number = next(tops, len(self._pieces) - 1)
        return (number, self._pieces[number].position_at(point))

    def _link_at(self, point: QPointF) -> str:
        return next((found for piece in self._pieces if (found := piece.link_at(point))), "")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
            return
        self._by_keyboard, self._ringed = False, -1
        self._pressed_link = self._link_at(event.position())
        self._cursor = self._place_at(event.position())
        if not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._anchor = self._cursor
        self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            place = self._place_at(event.position())
            if place != self._cursor:
                self._cursor = place
                self.update()
            return
        over_text = any(piece.inner.contains(event.position().toPoint()) for piece in self._pieces)
        shape = Qt.CursorShape.IBeamCursor if over_text else Qt.CursorShape.ArrowCursor
        self.setCursor(Qt.CursorShape.PointingHandCursor if self._link_at(event.position()) else shape)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed_link = self._pressed_link, ""
        if pressed and self._anchor == self._cursor and self._link_at(event.position()) == pressed:
            self._follow(pressed)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        number, position = self._place_at(event.position())
        if self._pieces:
            start, end = self._pieces[number].word_at(position)
            self._anchor, self._cursor = (number, start), (number, end)
            self._pressed_link = ""
            self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """A wheel turned sideways moves the box under the pointer."""
        sideways = event.pixelDelta().x() or event.angleDelta().x() // 2
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and not sideways:
            sideways = event.angleDelta().y() // 2
        for piece, bar in self._bars:
            if sideways and piece.overflow and piece.rect.contains(event.position().toPoint()):
                bar.setValue(bar.value() - sideways)
                event.accept()
                return
        event.ignore()

    # ---------------------------------------------------------------- keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:
        ringed = self._ring()
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and ringed is not None:
            self._follow(ringed[1].address)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        reasons = Qt.FocusReason
        self._by_keyboard = event.reason() in (reasons.TabFocusReason, reasons.BacktabFocusReason)
        if event.reason() == reasons.BacktabFocusReason and self._all_links():
            self._ringed = len(self._all_links()) - 1
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self._ringed = -1
        self.update()

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes through the links before it goes on."""
        if self.hasFocus():
            place = self._ringed + (1 if forward else -1)
            if -1 <= place < len(self._all_links()) and place != self._ringed:
                self._ringed = place
                self._by_keyboard = True
                self.update()
                return True
        return super().focusNextPrevChild(forward)

    def focused_rect(self) -> QRect:
        """What has the keyboard: a link, or all of the text."""
        ringed = self._ring()
        return self.rect() if ringed is None else self._pieces[ringed[0]].rect_of(ringed[1].start)

    def _all_links(self) -> list[tuple[int, Link]]:
        if self._links is None:
            self._links = [(number, link) for number, piece in enumerate(self._pieces) for link in piece.links()]
        return self._links

    def _ring(self) -> tuple[int, Link] | None:
        return self._all_links()[self._ringed] if self.hasFocus() and self._ringed >= 0 else None

    # ---------------------------------------------------------------- acts

    def _follow(self, address: str) -> None:
        self.link_asked.emit(address)
        ask_to_open(address, self)

    @Slot()
    def _copy_code(self) -> None:
        for piece, made in self._buttons:
            if made is self.sender() and piece.code is not None:
                QGuiApplication.clipboard().setText(piece.code.text)
                made.setText(tr("Copied"))
                self._put_controls()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        selected = bool(self.selected_text())
        menu.addAction(tr("Copy selection") if selected else tr("Copy all"), self.copy)
        menu.addAction(tr("Select all"), self.select_all)
        address = self._link_at(QPointF(event.pos()))
        if address:
            clipboard = QGuiApplication.clipboard()
            menu.addAction(tr("Copy the address"), lambda: clipboard.setText(address))
            menu.addAction(tr("Open…"), lambda: self._follow(address))
        menu.popup(event.globalPos())

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            address = self._link_at(QPointF(event.pos()))
            if address:
                QToolTip.showText(event.globalPos(), f"<qt>{html.escape(safe(address))}</qt>", self)
            else:
                QToolTip.hideText()
                event.ignore()
            return True
        return super().event(event)
