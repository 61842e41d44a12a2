"""The page on running DiffusionGemma on vLLM, shown as it is in the project's documents."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QDialog, QTextBrowser, QWidget

from app.design.controls import button
from app.design.fonts import TEXT_BODY, TEXT_LEAD, TEXT_TITLE, canvas_font, px
from app.design.layouts import STRETCH, column_of, row_of
from app.system.i18n import tr

VLLM_GUIDE = Path(__file__).resolve().parents[2] / "packaging" / "VLLM.md"
WIDTH, HEIGHT = 860, 640
MARGIN, GAP = 16, 8  # pixels around the text, and between its paragraphs


class GuideDialog(QDialog):
    """Shows the guide, read-only; links open in the browser."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("DiffusionGemma on vLLM"))
        self.setAccessibleName(tr("DiffusionGemma on vLLM"))
        room = self.screen().availableSize()
        self.resize(min(px(WIDTH), room.width() - 32), min(px(HEIGHT), room.height() - 64))
        self.text = QTextBrowser()
        self.text.setOpenExternalLinks(True)
        self.text.setAccessibleName(tr("How to run DiffusionGemma on vLLM"))
        self.text.setMarkdown(VLLM_GUIDE.read_text(encoding="utf-8"))
        self._set_apart()
        close = button(tr("Close"), tr("Close the page"), role="plain", clicked=self.accept)
        buttons = row_of(STRETCH, close)
        self.setLayout(column_of((self.text, 1), buttons, margins=(16, 16, 16, 16), spacing=16))

    def _set_apart(self) -> None:
        """Gives paragraphs, headings and code font sizes and margins, which Qt's Markdown reader does not set."""
        document = self.text.document()
        document.setDocumentMargin(MARGIN)
        block = document.begin()
        while block.isValid():
            cursor, form = QTextCursor(block), block.blockFormat()
            cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
            level, letters = form.headingLevel(), QTextCharFormat()
            form.setTopMargin(2 * GAP if level else 0)
            form.setBottomMargin(0 if form.nonBreakableLines() else GAP)
            cursor.setBlockFormat(form)
            if level:
                font = self.text.font()
                font.setPixelSize(px(TEXT_TITLE if level == 1 else TEXT_LEAD))
                font.setBold(True)
                letters.setFont(font)
            elif form.nonBreakableLines():
                letters.setFont(canvas_font(TEXT_BODY - 1))
            cursor.mergeCharFormat(letters)
            block = block.next()
