"""A section of a text that is laid out as one document: paragraphs, or a box that scrolls by itself. No widget."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QFontMetrics,
    QFontMetricsF,
    QPainter,
    QPainterStateGuard,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextLine,
)

from app.chat.markdown_view.blocks import Code, Heading, MarkdownRow, Math, Paragraph, Table, Text, ThematicBreak
from app.chat.markdown_view.document import (
    CLOSE_GAP,
    GAP,
    HEADING_GAP,
    INDENT,
    OBJECT,
    WRITTEN,
    InertDocument,
    Style,
    code_document,
    flow_document,
    math_document,
    table_document,
)
from app.chat.markdown_view.slow import Job
from app.design.fonts import TEXT_SMALL, px
from app.design.tokens import color, set_inks
from app.system.i18n import tr

HEADER = 32  # pixels: height of a code block's header, with its language and its button
PADDING = 12
BAR = 12
BETWEEN = 12
END = 1 << 30
"""A position behind all others."""
_SEPARATORS = str.maketrans({"\u2029": "\n", "\u2028": "\n", "\u00a0": " ", "\ufdd0": "\t", "\ufdd1": "\n"})


@dataclass(frozen=True)
class Link:
    """An address and its position in a document."""

    address: str
    start: int
    end: int


class Section:
    """Rows in one document, laid out by ``place``. All points are in the coordinates of the containing widget."""

    def __init__(self, rows: tuple[MarkdownRow, ...], style: Style) -> None:
        self.rows = rows
        self.is_boxed = rows[0].is_boxed
        self.scrolled = 0  # pixels to the right
        self.rect = QRect()
        self.inner = QRect()  # the visible area of the document
        self.overflow = 0  # pixels by which the document is too wide
        self._style = style
        self._has_bars = any(row.bars or isinstance(row.content, ThematicBreak) for row in rows)
        self._has_markers = any(row.marker for row in rows)
        self._document: InertDocument | None = None

    @property
    def document(self) -> InertDocument:
        """The document, made when first needed."""
        if self._document is None:
            self._document = _document(self.rows, self._style)
        return self._document

    @property
    def code(self) -> Code | None:
        """The program, if the section is one; else None."""
        content = self.rows[0].content
        return content if isinstance(content, Code) else None

    @property
    def end(self) -> int:
        return self.document.characterCount() - 1

    def waits_for(self, jobs: Collection[Job]) -> bool:
        """Returns True if the section still needs the result of one of these jobs."""
        return self._document is not None and not self._document.waiting.isdisjoint(jobs)

    def cursor(self, position: int) -> QTextCursor:
        cursor = QTextCursor(self.document)
        cursor.setPosition(min(position, self.end))
        return cursor

    def invalidate(self, jobs: Collection[Job]) -> bool:
        """Makes room for the results of jobs. Returns True if the section must be laid out again."""
        is_changed = self.waits_for(jobs)
        if is_changed:
            self._document = None
        return is_changed

    def gap(self, above: Section | None) -> int:
        """Returns the distance to the section above in pixels."""
        if above is None:
            return 0
        if self.is_boxed or above.is_boxed:
            return BETWEEN
        first = self.rows[0]
        if first.joint is not None:
            return 0
        return HEADING_GAP if isinstance(first.content, Heading) else CLOSE_GAP if first.close else GAP

    def joint(self, above: Section) -> str:
        """Returns the separator between this and the section above in copied text."""
        first = self.rows[0].joint
        between = "\n\n" if self.is_boxed or above.is_boxed else "\n"
        return between if first is None else first

    def move(self, top: int) -> None:
        """Moves the section vertically without a new layout."""
        by = top - self.rect.top()
        self.rect.translate(0, by)
        self.inner.translate(0, by)

    def place(self, left: int, top: int, width: int) -> int:
        """Lays the section out for a width and returns its height, both in pixels."""
        if not self.is_boxed:
            if self.document.textWidth() != width:
                self.document.setTextWidth(width)
            height = round(self.document.size().height())
            self.rect, self.inner = QRect(left, top, width, height), QRect(left, top, width, height)
            return height
        indent = INDENT * self.rows[0].indent
        framed = self.code is not None
        side = PADDING if framed else 0
        room = max(40, width - indent - 2 * side)
        if isinstance(self.rows[0].content, Table):
            self.document.setTextWidth(room)
        needed = self.document.size()
        self.overflow = max(0, round(needed.width()) - room)
        self.scrolled = min(self.scrolled, self.overflow)
        above = px(HEADER) if framed else 4
        below = BAR if self.overflow else (PADDING if framed else 4)
        height = above + round(needed.height()) + below
        self.rect = QRect(left + indent, top, width - indent, height)
        self.inner = QRect(left + indent + side, top + above, room, round(needed.height()))
        if isinstance(self.rows[0].content, Math) and not self.overflow:
            self.inner.translate((room - round(needed.width())) // 2, 0)
        return height

    def bar_rect(self) -> QRect:
        return QRect(self.inner.left(), self.rect.bottom() + 1 - BAR, self.inner.width(), BAR)

    def position_at(self, point: QPointF) -> int:
        return max(0, self.document.documentLayout().hitTest(self._within(point), Qt.HitTestAccuracy.FuzzyHit))

    def link_at(self, point: QPointF) -> str:
        """Returns the address under a point; empty if there is none."""
        if not self.inner.contains(point.toPoint()):
            return ""
        return self.document.documentLayout().anchorAt(self._within(point))

    def links(self) -> Iterator[Link]:
        if not any(_has_link(row) for row in self.rows):
            return
        if not self.is_boxed or isinstance(self.rows[0].content, Table):
            block = self.document.begin()
            while block.isValid():
                yield from _links_of(block)
                block = block.next()

    def span_rect(self, start: int, end: int) -> QRectF:
        """Returns the rectangle of the characters between two positions, only those on the line of the first."""
        block = self.document.findBlock(start)
        line = block.layout().lineForTextPosition(start - block.position())
        if not line.isValid():
            return QRectF()
        last = min(end - block.position(), line.textStart() + line.textLength())
        left, right = (_x(line, place) for place in (start - block.position(), last))
        corner = self.document.documentLayout().blockBoundingRect(block).topLeft()
        corner += QPointF(self.inner.left() - self.scrolled, self.inner.top())
        rect = QRectF(min(left, right), line.y(), abs(right - left), line.height()).translated(corner)
        return rect & QRectF(self.inner) if self.is_boxed else rect

    def copied(self, start: int, end: int) -> str:
        """Returns the text between two positions, with formulas as source and lists with markers."""
        if (start, end) == (0, END):  # all of it, which needs no document
            joints = ["", *("\n" if row.joint is None else row.joint for row in self.rows[1:])]
            return "".join(joint + row.copied for joint, row in zip(joints, self.rows, strict=True))
        end = min(end, self.end)
        if (start, end) == (0, self.end) and self.is_boxed:
            return self.rows[0].copied
        parts: list[str] = []
        block = self.document.findBlock(start)
        while block.isValid() and block.position() <= end:
            begin = max(start, block.position())
            stop = min(end, block.position() + block.length() - 1)
            row = self._row(block)
            marker = f"{row.marker} " if row is not None and row.marker and begin == block.position() else ""
            joint = (row.joint if row is not None and row.joint is not None else "\n") if parts else ""
            parts.append(joint + marker + self._letters(begin, stop))
            block = block.next()
        return "".join(parts)

    def _letters(self, start: int, end: int) -> str:
        cursor = self.cursor(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        text = cursor.selectedText().translate(_SEPARATORS)
        if OBJECT not in text:
            return text
        letters: list[str] = []
        for offset, letter in enumerate(text):
            if letter == OBJECT:
                cursor.setPosition(start + offset + 1)
                letter = str(cursor.charFormat().property(WRITTEN) or "")
            letters.append(letter)
        return "".join(letters)

    def _within(self, point: QPointF) -> QPointF:
        return point - QPointF(self.inner.topLeft()) + QPointF(self.scrolled, 0)

    def _row(self, block: QTextBlock) -> MarkdownRow | None:
        """Returns the row of a block; in paragraphs each block is one row. None in a box."""
        return None if self.is_boxed else self.rows[block.blockNumber()]

    def paint(
        self,
        painter: QPainter,
        exposed: QRect,
        selected: tuple[int, int] | None,
        ringed: Link | None,
        matches: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Draws the part within ``exposed``; ``matches`` are places that a search has found."""
        theme = self._style.theme
        if self.code is not None:
            set_inks(painter, color(theme.line), color(theme.surface_sunken))
            painter.drawRoundedRect(QRectF(self.rect).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        with QPainterStateGuard(painter):
            shown = self.inner.intersected(exposed)
            if self.is_boxed:
                painter.setClipRect(shown)
            painter.translate(self.inner.left() - self.scrolled, self.inner.top())
            context = QAbstractTextDocumentLayout.PaintContext()
            context.clip = QRectF(shown.translated(self.scrolled - self.inner.left(), -self.inner.top()))
            context.palette.setColor(context.palette.ColorRole.Text, color(theme.ink))
            marked = [self._mark(*place, background=theme.selection) for place in matches]
            if selected is not None and selected[0] != selected[1]:
                marked.append(self._mark(*selected, background=theme.selection))
            if ringed is not None:
                marked.append(self._mark(ringed.start, ringed.end, background=theme.focus, ink=theme.surface))
            context.selections = marked
            if self._has_bars and not self.is_boxed:
                self._paint_bars(painter, context.clip)
            self.document.documentLayout().draw(painter, context)
            if self._has_markers and not self.is_boxed:
                self._paint_markers(painter, context.clip)

    def paint_header(self, painter: QPainter) -> None:
        font = self._style.font()
        font.setPixelSize(px(TEXT_SMALL))
        painter.setFont(font)
        painter.setPen(color(self._style.theme.faint_ink))
        area = QRect(self.inner.left(), self.rect.top(), self.inner.width() - 64, px(HEADER))
        said = (self.code.language if self.code is not None else "") or tr("code")
        elided = QFontMetrics(font).elidedText(said, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, elided)

    def _mark(self, start: int, end: int, *, background: str, ink: str = "") -> QAbstractTextDocumentLayout.Selection:
        selection = QAbstractTextDocumentLayout.Selection()
        cursor = self.cursor(start)
        cursor.setPosition(min(end, self.end), QTextCursor.MoveMode.KeepAnchor)
        format = QTextCharFormat()
        format.setBackground(color(background))
        if ink:
            format.setForeground(color(ink))
        selection.cursor, selection.format = cursor, format
        return selection

    def _blocks_in(self, clip: QRectF) -> Iterator[tuple[QTextBlock, MarkdownRow, QRectF]]:
        layout = self.document.documentLayout()
        block = self.document.findBlock(max(0, layout.hitTest(clip.topLeft(), Qt.HitTestAccuracy.FuzzyHit)))
        while block.isValid():
            row, rect = self._row(block), layout.blockBoundingRect(block)
            if row is None or rect.top() > clip.bottom():
                return
            yield block, row, rect
            block = block.next()

    def _paint_bars(self, painter: QPainter, clip: QRectF) -> None:
        theme = self._style.theme
        for block, row, rect in self._blocks_in(clip):
            number = block.blockNumber()
            above = self.rows[number - 1] if number else None
            for place, level in enumerate(row.bars):
                top = rect.top() + 2
                if above is not None and above.bars[: place + 1] == row.bars[: place + 1]:
                    top = self.document.documentLayout().blockBoundingRect(block.previous()).bottom()
                painter.fillRect(QRectF(level * INDENT + 4, top, 2, rect.bottom() - top), color(theme.line_strong))
            if isinstance(row.content, ThematicBreak):
                painter.fillRect(QRectF(row.indent * INDENT, rect.center().y(), rect.width(), 1), color(theme.line))

    def _paint_markers(self, painter: QPainter, clip: QRectF) -> None:
        theme = self._style.theme
        for block, row, rect in self._blocks_in(clip):
            if not row.marker or not isinstance(row.content, (Paragraph, Heading)):
                continue
            layout = block.layout()
            if not layout.lineCount():
                continue
            line = layout.lineAt(0)
            font = self._style.font()
            painter.setFont(font)
            painter.setPen(color(theme.faint_ink if row.marker[0].isdigit() else theme.candidate))
            width = QFontMetricsF(font).horizontalAdvance(row.marker)
            baseline = rect.top() + line.y() + line.ascent()
            if block.blockFormat().layoutDirection() == Qt.LayoutDirection.RightToLeft:
                x = self.inner.width() - block.blockFormat().rightMargin() + 8
            else:
                x = block.blockFormat().leftMargin() - width - 8
            painter.drawText(QPointF(x, baseline), row.marker)


def _x(line: QTextLine, place: int) -> float:
    x, _ = cast("tuple[float, int]", line.cursorToX(place))  # PySide's stubs leave the type open
    return x


def _has_link(row: MarkdownRow) -> bool:
    match row.content:
        case Paragraph(inlines) | Heading(_, inlines):
            return any(isinstance(part, Text) and part.link for part in inlines)
        case Table(_, lines):
            return any(isinstance(part, Text) and part.link for line in lines for cell in line for part in cell)
    return False


def _document(rows: tuple[MarkdownRow, ...], style: Style) -> InertDocument:
    match rows[0].content:
        case Code() as code:
            return code_document(code, style)
        case Math() as math:
            return math_document(math, style)
        case Table() as table:
            return table_document(table, style)
    return flow_document(rows, style)


def _links_of(block: QTextBlock) -> Iterator[Link]:
    link: Link | None = None
    iterator = block.begin()
    while not iterator.atEnd():
        fragment = iterator.fragment()
        address = fragment.charFormat().anchorHref() if fragment.charFormat().isAnchor() else ""
        start, end = fragment.position(), fragment.position() + fragment.length()
        if link is not None and link.address == address and link.end == start:
            link = Link(address, link.start, end)
        else:
            if link is not None:
                yield link
            link = Link(address, start, end) if address else None
        iterator += 1
    if link is not None:
        yield link
