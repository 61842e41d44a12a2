"""The row of one tool server: its target, state, what it wrote, and a row for each of its tools."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QCheckBox, QFrame, QWidget

from app.design.controls import Elided, FocusGroup, button, describe, discard, flow_of, introduce, label, restyle
from app.design.fonts import TEXT_SMALL, canvas_font, px
from app.design.layouts import STRETCH, Gap, boxed, column_of, row_of
from app.design.text_field import PlainText
from app.system.i18n import tr
from app.tools.store import Leave
from app.tools.words import plain, state_text, target_tip, tool_text, tool_tip
from engine.tools.declared import ToolServer
from engine.tools.tool import Tool, ToolServerState

LOG_HEIGHT = 132  # pixels at 100 %
INDENT = 26  # pixels: below the words of a check box
LONGEST_NAME = 48  # characters that are shown; the tip has the whole name


class ToolServerRow(QFrame):
    """A server; its tools are made when they are first unfolded."""

    switched = Signal(bool)
    restart_asked = Signal()
    edit_asked = Signal()
    remove_asked = Signal()
    offered = Signal(str, bool)  # a tool's name
    granted = Signal(str, bool)

    def __init__(self, server: ToolServer) -> None:
        super().__init__()
        introduce(self, plain(server.name), role="model")
        self.tools: dict[str, ToolRow] = {}
        self._shown: ToolServerState | None = None
        self._leave = Leave()
        self._made_of: tuple[Tool, ...] = ()  # the tools that have rows
        self._make_controls(server)
        self._lay_out()
        self._connect()

    def _make_controls(self, server: ToolServer) -> None:
        self.title = Elided("model-title")
        self.title.set_whole(plain(server.name))
        name = plain(server.name, 80)
        self.switch = introduce(QCheckBox(tr("On")), tr("Run {server}", server=name))
        self.target = Elided("fact")
        self.state = label("", "fact", wrap=True, selectable=True)
        self.fold = button(tr("Tools"), checkable=True)
        self.wrote = button(tr("What it wrote"), checkable=True)
        tip = tr("Ends the server and starts it again")
        self.restart = button(tr("Restart"), tip=tip, clicked=self.restart_asked)
        self.edit = button(tr("Edit…"), clicked=self.edit_asked)
        self.remove = button(tr("Remove"), clicked=self.remove_asked)
        self._buttons = (self.fold, self.wrote, self.restart, self.edit, self.remove)
        for act in self._buttons:
            act.setAccessibleName(f"{act.text().rstrip('…')}: {name}")
            act.setAutoDefault(False)
        said = tr("What {server} wrote to its standard error", server=name)
        self.log = introduce(PlainText(readOnly=True, tabChangesFocus=True), said, role="code")
        self.log.setFont(canvas_font(TEXT_SMALL))
        self.log.setFixedHeight(px(LOG_HEIGHT))
        self._acts = FocusGroup(self.switch, self.fold, self.wrote, self.restart)

    def _lay_out(self) -> None:
        heading = row_of((self.title, 1), (self.switch, 0, Qt.AlignmentFlag.AlignTop), spacing=16)
        self._tools = column_of(margins=(0, 4, 0, 0), spacing=6)
        self._unfolded = boxed(self._tools)
        self._unfolded.hide()
        self.log.hide()
        acts = flow_of(*self._buttons, gap=16, row_gap=4)
        parts = (heading, self.target, self.state, acts, self.log, self._unfolded)
        self.setLayout(column_of(*parts, margins=(16, 12, 16, 12), spacing=4))

    def _connect(self) -> None:
        self.switch.clicked.connect(self.switched)
        self.fold.toggled.connect(self._unfold)
        self.wrote.toggled.connect(self._unfold)

    def show_state(self, state: ToolServerState, leave: Leave) -> None:
        self._shown, self._leave = state, leave
        self.target.set_whole(plain(state.server.target, 700))
        describe(self.target, target_tip(state.server))
        text = state_text(state)
        has_failed = state.server.is_on and text.startswith("✕")
        self.state.setText(text)
        tip = tr("The first start can take a minute, while the program is downloaded.")
        self.state.setToolTip(tip if state.status == "starting" else "")
        self.setAccessibleDescription(text)
        role = "fault" if has_failed else "fact"
        if self.state.property("role") != role:
            restyle(self.state, "role", role)
        if self.log.raw() != state.log:
            self.log.setPlainText(state.log)
        with self._acts:
            self.switch.setChecked(state.server.is_on)
            self.restart.setEnabled(state.server.is_on)
            self.fold.setVisible(bool(state.tools))
            self.wrote.setVisible(bool(state.log))
            self._unfold()

    @Slot()
    def _unfold(self) -> None:
        state = self._shown
        if state is None:
            return
        is_open = self.fold.isChecked() and bool(state.tools)
        if is_open and self._made_of != state.tools:
            self._make_rows(state.tools)
        if is_open:
            for name, row in self.tools.items():
                row.show_leave(
                    is_offered=self._leave.is_offered(state.server, name),
                    is_free=name in self._leave.always.get(state.server.identity, ()),
                    reads=self._leave.reads,
                )
        self._unfolded.setVisible(is_open)
        self.log.setVisible(self.wrote.isChecked() and bool(state.log))

    def _make_rows(self, tools: tuple[Tool, ...]) -> None:
        focused = next((name for name, row in self.tools.items() if row.isAncestorOf(_focus(self))), "")
        for row in self.tools.values():
            discard(row)
        self._made_of, self.tools = tools, {}
        for tool in tools:
            self.tools[tool.name] = row = ToolRow(tool)
            row.offered.connect(lambda is_on, name=tool.name: self.offered.emit(name, is_on))
            row.granted.connect(lambda is_on, name=tool.name: self.granted.emit(name, is_on))
            self._tools.addWidget(row)
        if focused in self.tools:
            self.tools[focused].offer.setFocus()

    def tab_order(self) -> tuple[QWidget, ...]:
        """Returns the focusable widgets, in order."""
        rows = [widget for row in self.tools.values() for widget in row.tab_order()]
        return (self.switch, *self._buttons, self.log, *rows)


def _focus(within: QWidget) -> QWidget:
    return within.window().focusWidget() or within


class ToolRow(QWidget):
    """Shows a tool; emits what was chosen."""

    offered = Signal(bool)
    granted = Signal(bool)

    def __init__(self, tool: Tool) -> None:
        super().__init__()
        name = plain(tool.name, 128)
        self._is_read_only = tool.is_read_only
        said, tip = tr("Offer {tool} to models", tool=name), tool_tip(tool)
        self.offer = introduce(QCheckBox(plain(name, LONGEST_NAME)), said, tip=tip)
        self.reads = label(tr("only reads"), "caption")
        if not tool.is_read_only:  # shown with its row: shown before it has a parent, it would be a window
            self.reads.hide()
        self.about = Elided("caption")
        self.about.set_whole(tool_text(tool))
        self.about.setToolTip(tip)
        self.free = introduce(QCheckBox(tr("Without a question")), tr("Call {tool} without a question", tool=name))
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
        describe(self.free, tip)

    def tab_order(self) -> tuple[QWidget, ...]:
        return self.offer, self.free
