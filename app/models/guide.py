"""The page on running DiffusionGemma on vLLM, shown as it is in the project's documents."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QDialog, QHBoxLayout, QTextBrowser, QVBoxLayout, QWidget

from app.design.controls import button
from app.design.fonts import px
from app.system.i18n import tr

VLLM_GUIDE = Path(__file__).resolve().parents[2] / "packaging" / "VLLM.md"


class GuideDialog(QDialog):
    """Read-only; links open in the browser."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("DiffusionGemma on vLLM"))
        self.setAccessibleName(tr("DiffusionGemma on vLLM"))
        self.resize(min(px(760), 1100), min(px(560), 900))
        text = QTextBrowser()
        text.setOpenExternalLinks(True)
        text.setAccessibleName(tr("How to run DiffusionGemma on vLLM"))
        text.setMarkdown(VLLM_GUIDE.read_text(encoding="utf-8"))
        close = button(tr("Close"), tr("Close the page"), role="plain")
        close.clicked.connect(self.accept)
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(close)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(16)
        column.addWidget(text, 1)
        column.addLayout(buttons)
