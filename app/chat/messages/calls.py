"""The tool calls of an answer: what the model asked for, the user's leave, and what came back. All of it plain text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.chat.commands import TurnCommands
from app.chat.markdown_view.widget import PAD, MarkdownView
from app.design.controls import Elided, button, discard, flow_of, introduce, label
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.state.chat.calls import ToolCall, ToolRound
from app.system.hidden import visible
from app.system.i18n import tr
from app.tools.words import question_of

LONGEST_SHOWN = 100  # characters of the arguments, and of the result, in a call's line


def line_of(call: ToolCall) -> str:
    """Returns a call with its result in one line, ``add(first: 2, second: 40) → 42``."""
    parts = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    inner = ", ".join(parts)
    return f"{visible(call.called)}({_short(inner)})" + (f" → {_short(call.result)}" if call.status == "done" else "")


def _short(text: str) -> str:
    line = visible(" ".join(text[: 2 * LONGEST_SHOWN].split()))
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"


def state_of(call: ToolCall) -> str:
    return {
        "waiting": tr("comes next"),
        "asking": tr("waits for your decision"),
        "running": tr("is running"),
        "refused": tr("not run"),
        "failed": tr("failed"),
        "done": tr("{seconds} s", seconds=f"{call.seconds:.1f}" if call.seconds >= 0.1 else "< 0.1"),
    }[call.status]


class CallView(QWidget):
    """One call: a line that unfolds to its arguments and its result, and three buttons while it waits for leave."""

    def __init__(
        self, call: ToolCall, tool_round: ToolRound, commands: TurnCommands, rebuilt: Callable[[], object]
    ) -> None:
        super().__init__()
        self.call = call
        self._round = tool_round
        self._rebuilt = rebuilt
        self.fold = button("", "", checkable=True)
        self.fold.toggled.connect(self._toggle)
        self.line = Elided("setting")
        self.state = label("", "caption")
        self.arguments = MarkdownView(tr("Arguments of the call"), markdown=False, quoted=True)
        self.result = MarkdownView(tr("Result of the call"), markdown=False, quoted=True)
        self.question = label("", "remark", wrap=True)
        self.once = button(tr("Run once"), role="primary", clicked=lambda: commands.decide(call, "once"))
        self.always = introduce(
            button(tr("Always run it"), role="plain", clicked=lambda: commands.decide(call, "always")),
            tip=tr("Without a question from now on; Settings, Tools takes it back"),
        )
        self.refuse = button(
            tr("Don't run"), tr("Do not run the call"), role="plain", clicked=lambda: commands.decide(call, "no")
        )
        self.inspect = button(
            tr("Inspect"), tr("Inspect how the call came about"), clicked=lambda: commands.inspect(tool_round)
        )
        self.asked = boxed(column_of(flow_of(self.once, self.always, self.refuse), margins=(PAD, 0, PAD, 0)))
        asked = column_of(self.question, margins=(PAD, 0, PAD, 0))
        foot = row_of(self.inspect, STRETCH, margins=(PAD, 0, PAD, 0))
        head = row_of(self.fold, (self.line, 1), self.state, margins=(PAD, 0, PAD, 0), spacing=8)
        self.setLayout(column_of(head, asked, self.arguments, self.asked, self.result, foot, spacing=4))
        for prose in (self.arguments, self.result):
            prose.hide()
            prose.rebuilt.connect(rebuilt)
        self.refresh()

    def refresh(self) -> None:
        """Shows the present state of the call; one that waits for leave is unfolded."""
        call, asks = self.call, self.call.status == "asking"
        self.line.set_whole(line_of(call))
        self.line.setToolTip("")  # a model's text could be markup there
        self.state.setText(state_of(call))
        if asks and call.server is not None:
            self.question.setText(question_of(call.called, call.server))
        if asks and self.asked.isHidden():
            self.fold.setChecked(True)
        elif not asks and not self.asked.isHidden():
            self.fold.setChecked(False)
        self.asked.setVisible(asks)
        self.question.setVisible(asks)
        self._toggle()

    @Slot()
    def _toggle(self) -> None:
        is_open, call = self.fold.isChecked(), self.call
        self.fold.setText("▾" if is_open else "▸")
        said = {"call": line_of(call), "state": state_of(call)}
        name = tr("Fold the call {call}, {state}", **said) if is_open else tr("Show the call {call}, {state}", **said)
        self.fold.setAccessibleName(name)
        result = call.result.strip()
        if is_open:
            self.arguments.set_text(visible(call.written))
            self.result.set_text(result)
        self.arguments.setVisible(is_open)
        self.result.setVisible(is_open and bool(result))
        self.inspect.setVisible(is_open and self._round.has_trace and not self.asked.isVisibleTo(self))
        self.updateGeometry()
        self._rebuilt()


class CallsView(QWidget):
    """The rounds of an answer before its text, hidden without any."""

    def __init__(self, commands: TurnCommands, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._commands, self._rebuilt = commands, rebuilt
        self._drawn: list[ToolRound] = []
        self.texts: list[MarkdownView] = []
        self.calls: list[CallView] = []
        self._column = column_of(spacing=8)
        self.setLayout(self._column)
        self.hide()

    def show_rounds(self, rounds: Sequence[ToolRound]) -> None:
        """Shows rounds; those that are drawn already are only brought up to date."""
        if self._drawn != list(rounds[: len(self._drawn)]):
            self._clear()
        for tool_round in rounds[len(self._drawn) :]:
            self._add(tool_round)
        for view in self.calls:
            view.refresh()
        self.setVisible(bool(rounds))

    def _add(self, tool_round: ToolRound) -> None:
        self._drawn.append(tool_round)
        if tool_round.text:
            text = MarkdownView(tr("Text before a call"))
            text.rebuilt.connect(self._rebuilt)
            text.set_text(tool_round.text)
            self.texts.append(text)
            self._column.addWidget(text)
        for call in tool_round.calls:
            view = CallView(call, tool_round, self._commands, self._rebuilt)
            self.calls.append(view)
            self._column.addWidget(view)
        self._rebuilt()

    def _clear(self) -> None:
        for view in (*self.texts, *self.calls):
            if isValid(view):
                discard(view)
        self.texts, self.calls, self._drawn = [], [], []
