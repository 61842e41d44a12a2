"""The row of one tool of a server: whether models are offered it, and whether it may be called without a question."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from app.design.controls import Elided, label
from app.design.layouts import STRETCH, Gap, column_of, row_of
from app.system.i18n import tr
from app.tools.words import plain, tool_text, tool_tip
from engine.tools.tool import Tool

INDENT = 26  # pixels: below the words of a check box
LONGEST_NAME = 48  # characters that are shown; the tip has the whole name


class ToolRow(QWidget):
    """Shows a tool; emits what was chosen."""

    offered = Signal(bool)
    granted = Signal(bool)

    def __init__(self, tool: Tool) -> None:
        super().__init__()
        name = plain(tool.name, 128)
        self._is_read_only = tool.is_read_only
        self.offer = QCheckBox(plain(name, LONGEST_NAME))
        self.offer.setAccessibleName(tr("Offer {tool} to models", tool=name))
        self.offer.setToolTip(tool_tip(tool))
        self.reads = label(tr("only reads"), "caption")
        if not tool.is_read_only:  # shown with its row: shown before it has a parent, it would be a window
            self.reads.hide()
        self.about = Elided("caption")
        self.about.set_whole(tool_text(tool))
        self.about.setToolTip(tool_tip(tool))
        self.free = QCheckBox(tr("Without a question"))
        self.free.setAccessibleName(tr("Call {tool} without a question", tool=name))
        head = row_of((self.offer, 0, Qt.AlignmentFlag.AlignLeft), self.reads, STRETCH, spacing=8)
        self.setLayout(column_of(head, row_of(Gap(INDENT), (self.about, 1), Gap(12), self.free, spacing=0), spacing=0))
        self.offer.clicked.connect(self.offered)
        self.free.clicked.connect(self.granted)

    def show_leave(self, *, is_offered: bool, is_free: bool, reads: bool) -> None:
        """Shows the user's leave.

        Args:
            reads: tools that only read may be called without a question.
        """
        by_switch = reads and self._is_read_only
        self.offer.setChecked(is_offered)
        self.free.setChecked(is_free or by_switch)
        self.free.setEnabled(is_offered and not by_switch)
        tip = tr("By the switch above") if by_switch else tr("Models may call it at any time, and nobody is asked")
        self.free.setToolTip(tip)
        self.free.setAccessibleDescription(tip)

    def tab_order(self) -> tuple[QWidget, ...]:
        return self.offer, self.free
