"""Turns rows into Qt text documents with fonts, margins and colours. Knows no widget; reads no file and no network.

A formula whose picture is not ready is shown as its source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QRect, QRectF, QSizeF, Qt, QUrl
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QPainter,
    QPyTextObject,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFrameFormat,
    QTextOption,
    QTextTableCellFormat,
    QTextTableFormat,
)

from app.chat.markdown_view import slow
from app.chat.markdown_view.blocks import (
    Align,
    Code,
    Formula,
    Heading,
    Inline,
    Inlines,
    MarkdownRow,
    Math,
    Paragraph,
    Table,
    is_rtl,
    plain,
)
from app.chat.markdown_view.side_process import side_process
from app.chat.markdown_view.slow import DrawnFormula, Job
from app.design import themes
from app.design.fonts import TEXT_BODY, TEXT_LEAD, canvas_font, px, text_percent, ui_font
from app.design.tokens import Theme, color

if TYPE_CHECKING:
    from PySide6.QtSvg import QSvgRenderer

FORMULA = QTextFormat.ObjectTypes.UserObject.value + 1
WRITTEN = QTextFormat.Property.UserProperty.value + 1  # property: the formula's original text
_PLACE = WRITTEN + 1  # property: the index in the list of pictures
OBJECT = "\ufffc"
INDENT = 24
GAP, CLOSE_GAP, HEADING_GAP = 12, 4, 20
HEADING_SCALE = {1: 1.5, 2: 1.25, 3: 1.125}
LINE_PERCENT = 130.0
WRAPS = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
_ALIGNED: dict[Align, Qt.AlignmentFlag] = {
    "left": Qt.AlignmentFlag.AlignLeft,
    "center": Qt.AlignmentFlag.AlignHCenter,
    "right": Qt.AlignmentFlag.AlignRight,
}


class Formulas(QPyTextObject):
    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._pictures: list[DrawnFormula] = []
        self._least_ascent = QFontMetricsF(document.defaultFont()).ascent()
        document.documentLayout().registerHandler(FORMULA, self)

    def format(self, picture: DrawnFormula, written: str, font: QFont) -> QTextCharFormat:
        """Returns the format with which an ``OBJECT`` character is drawn as the picture."""
        self._pictures.append(picture)
        characters = QTextCharFormat()
        characters.setObjectType(FORMULA)
        characters.setProperty(WRITTEN, written)
        characters.setProperty(_PLACE, len(self._pictures) - 1)
        # Qt reserves only the font's descent below the line, so the font grows until it fits the picture.
        deep = QFont(font)
        while QFontMetricsF(deep).descent() < picture.descent:
            deep.setPixelSize(max(deep.pixelSize() + 1, math.ceil(deep.pixelSize() * 1.1)))
        characters.setFont(deep)
        characters.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
        return characters

    def intrinsicSize(self, _document: QTextDocument, _position: int, format: QTextFormat) -> QSizeF:
        picture = self._pictures[int(format.property(_PLACE))]
        return QSizeF(picture.width, self._ascent(picture) + QFontMetricsF(format.toCharFormat().font()).descent())

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, _document: QTextDocument, _position: int, format: QTextFormat
    ) -> None:
        picture = self._pictures[int(format.property(_PLACE))]
        top = rect.top() + self._ascent(picture) - (picture.height - picture.descent)
        _renderer(picture).render(painter, QRectF(rect.left(), top, picture.width, picture.height))

    def _ascent(self, picture: DrawnFormula) -> float:
        """Returns a picture's ascent; at least that of letters, so that a line of formulas alone is aligned."""
        return max(picture.height - picture.descent, self._least_ascent)


@lru_cache(maxsize=256)
def _renderer(picture: DrawnFormula) -> QSvgRenderer:
    from PySide6.QtSvg import QSvgRenderer  # a separate library that most conversations do not need

    return QSvgRenderer(picture.svg)


@dataclass(frozen=True)
class Style:
    """Theme and text size of documents; ``percent`` is the user's text size."""

    theme: Theme
    percent: int

    @staticmethod
    def now() -> Style:
        return Style(themes.current(), text_percent())

    @property
    def pixels(self) -> int:
        return px(TEXT_LEAD)

    def font(self) -> QFont:
        return QFont(_fonts(self.percent)[0])

    def mono(self) -> QFont:
        return QFont(_fonts(self.percent)[1])


@lru_cache(maxsize=4)
def _fonts(_percent: int) -> tuple[QFont, QFont]:
    return ui_font(TEXT_LEAD), canvas_font(TEXT_BODY)


class InertDocument(QTextDocument):
    """A document that loads no resources, whatever its text names; made anew once a job in ``waiting`` is done."""

    def __init__(self, style: Style, font: QFont, wraps: QTextOption.WrapMode = WRAPS) -> None:
        super().__init__()
        self._style = style
        self._formulas: Formulas | None = None
        self.waiting: set[Job] = set()  # jobs whose results are still to come
        self.setUndoRedoEnabled(False)
        self.setDocumentMargin(0)
        self.setDefaultFont(font)
        option = self.defaultTextOption()
        option.setWrapMode(wraps)
        self.setDefaultTextOption(option)

    def loadResource(self, _kind: int, _name: QUrl | str) -> Any:
        return None

    def write(self, cursor: QTextCursor, inlines: Inlines, font: QFont, *, faint: bool = False) -> None:
        """Writes at the cursor; ``faint`` takes the paler colour of quotes."""
        for part in inlines:
            letters = self._format(part, font, faint)
            if isinstance(part, Formula):
                self.insert(cursor, part, font, letters)
            else:
                cursor.insertText(_lines(part.text), letters)

    def _format(self, part: Inline, font: QFont, faint: bool) -> QTextCharFormat:
        theme = self._style.theme
        format = QTextCharFormat()
        if isinstance(part, Formula) or part.code:
            format.setFont(self._style.mono())
            format.setBackground(color(theme.surface_sunken if theme.dark else theme.line))
            format.setForeground(color(theme.ink))
            return format
        format.setFont(font)
        format.setForeground(color(theme.candidate if faint else theme.ink))
        if part.bold:
            format.setFontWeight(QFont.Weight.Bold)
        format.setFontItalic(part.italic)
        format.setFontStrikeOut(part.struck)
        if part.link:
            format.setAnchor(True)
            format.setAnchorHref(part.link)
            format.setForeground(color(theme.accent))
            format.setFontUnderline(True)
        return format

    def insert(self, cursor: QTextCursor, formula: Formula, font: QFont, letters: QTextCharFormat) -> None:
        """Inserts a formula at the cursor: its picture in ``font``, or its source in ``letters``."""
        job = slow.FormulaRequest(formula.source, isinstance(formula, Math))
        picture = side_process().ask(job)
        if isinstance(picture, DrawnFormula):
            self._formulas = self._formulas or Formulas(self)
            shown = picture.shown(font.pixelSize(), self._style.theme.ink)
            cursor.insertText(OBJECT, self._formulas.format(shown, formula.written, font))
            return
        cursor.insertText(_lines(formula.written), letters)
        if side_process().is_pending(job):
            self.waiting.add(job)


def flow_document(rows: tuple[MarkdownRow, ...], style: Style) -> InertDocument:
    """Returns a document of paragraphs, headings and horizontal lines, one below the other."""
    document = InertDocument(style, style.font())
    cursor = QTextCursor(document)
    cursor.beginEditBlock()  # else each insertion lays out anew
    for number, row in enumerate(rows):
        if number:
            cursor.insertBlock()
        cursor.setBlockFormat(_block_format(row, first=number == 0))
        cursor.setBlockCharFormat(QTextCharFormat())
        match row.content:
            case Heading(level, inlines):
                font = style.font()
                font.setPixelSize(round(style.pixels * HEADING_SCALE.get(level, 1.0)))
                font.setWeight(QFont.Weight.DemiBold)
                document.write(cursor, inlines, font)
            case Paragraph(inlines):
                document.write(cursor, inlines, style.font(), faint=bool(row.bars))
    cursor.endEditBlock()
    return document


def code_document(code: Code, style: Style) -> InertDocument:
    """Returns the document of a program, not wrapped; in one colour until its parts are known."""
    font = style.mono()
    document = InertDocument(style, font, QTextOption.WrapMode.NoWrap)
    option = document.defaultTextOption()
    option.setTabStopDistance(4 * font.pixelSize() * 0.6)
    document.setDefaultTextOption(option)
    job = slow.ProgramRequest(code.text, code.language)
    parts = side_process().ask(job)
    document.waiting = {job} if side_process().is_pending(job) else set()
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    place = 0
    theme, plain_format = style.theme, _ink(style.theme.ink)
    inks = {
        "keyword": theme.taken_back,
        "text": theme.accepted,
        "number": theme.given,
        "remark": theme.faint_ink,
        "name": theme.ink,
        "error": theme.conflict,
    }
    for start, length, part in parts if isinstance(parts, tuple) else ():
        if start > place:
            cursor.insertText(code.text[place:start], plain_format)
        format = _ink(inks[part])
        format.setFontItalic(part == "remark")
        format.setFontWeight(QFont.Weight.DemiBold if part == "name" else QFont.Weight.Normal)
        cursor.insertText(code.text[start : start + length], format)
        place = start + length
    cursor.insertText(code.text[place:], plain_format)
    cursor.endEditBlock()
    return document


def math_document(math: Math, style: Style) -> InertDocument:
    """Returns the document of a displayed formula, or of its source if it cannot be drawn."""
    document = InertDocument(style, style.font(), QTextOption.WrapMode.NoWrap)
    font = style.font()
    font.setPixelSize(style.pixels + 2)
    letters = _ink(style.theme.ink)
    letters.setFont(style.mono())
    document.insert(QTextCursor(document), math, font, letters)
    return document


def table_document(table: Table, style: Style) -> InertDocument:
    """Returns the document of a table: as wide as its content, at most the width given to ``setTextWidth``."""
    document = InertDocument(style, style.font(), QTextOption.WrapMode.WordWrap)  # no column is narrower than its words
    format = QTextTableFormat()
    format.setBorder(0)
    format.setCellPadding(6)
    format.setCellSpacing(0)
    format.setHeaderRowCount(1)
    format.setBorderCollapse(True)
    line = QTextTableCellFormat()
    line.setBottomBorder(1)
    line.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    whole = QTextCursor(document)
    whole.beginEditBlock()  # else each insertion lays out anew
    grid = QTextCursor(document).insertTable(len(table.rows), len(table.aligns), format)
    bold = style.font()
    bold.setWeight(QFont.Weight.DemiBold)
    for number, row in enumerate(table.rows):
        for column, (inlines, align) in enumerate(zip(row, table.aligns, strict=False)):
            cell = grid.cellAt(number, column)
            line.setBottomBorderBrush(color(style.theme.line if number else style.theme.line_strong))
            cell.setFormat(line)
            cursor = cell.firstCursorPosition()
            shape = QTextBlockFormat()
            shape.setAlignment(_ALIGNED.get(align, Qt.AlignmentFlag.AlignLeading))
            shape.setLayoutDirection(_direction(inlines))
            cursor.setBlockFormat(shape)
            document.write(cursor, inlines, bold if number == 0 else style.font())
    whole.endEditBlock()
    return document


def _ink(code: str) -> QTextCharFormat:
    ink = QTextCharFormat()
    ink.setForeground(color(code))
    return ink


def _direction(inlines: Inlines) -> Qt.LayoutDirection:
    return Qt.LayoutDirection.RightToLeft if is_rtl(plain(inlines)[:500]) else Qt.LayoutDirection.LeftToRight


def _block_format(row: MarkdownRow, *, first: bool) -> QTextBlockFormat:
    format = QTextBlockFormat()
    format.setLineHeight(LINE_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    gap = 0 if row.joint is not None else CLOSE_GAP if row.close else GAP
    match row.content:
        case Paragraph(inlines) | Heading(_, inlines):
            format.setLayoutDirection(_direction(inlines))
            if isinstance(row.content, Heading):
                gap = HEADING_GAP
                format.setHeadingLevel(row.content.level)
    if not first:
        format.setTopMargin(gap)
    left_to_right = format.layoutDirection() != Qt.LayoutDirection.RightToLeft
    # Bars of quotes stay at the left in both directions; the indentation of lists follows the text's direction.
    bars = INDENT * len(row.bars)
    levels = INDENT * row.indent - bars
    format.setLeftMargin(bars + (levels if left_to_right else 0))
    format.setRightMargin(0 if left_to_right else levels)
    return format


def _lines(text: str) -> str:
    return text.replace("\n", "\u2028")  # Qt's line break within a paragraph
