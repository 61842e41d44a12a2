"""Runs the calls of one round of an answer, one after the other, with the user's leave."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, Future

from PySide6.QtCore import QObject, Signal, Slot

from app.state.chat.calls import REFUSED, Decision, ToolCall
from app.system.i18n import tr
from app.tools.toolbox import Toolbox
from engine import SafelightError
from engine.tools.fitting import misfit
from engine.tools.tool import Tool, ToolResult


class Calling(QObject):
    """The calls of a round. ``changed`` is emitted at each change of a call, and ``ended`` once all have a result.

    Args:
        tools: those that the model was offered.
    """

    changed = Signal()
    ended = Signal()
    _returned = Signal(object)  # a Future, in the thread of the servers

    def __init__(self, calls: Sequence[ToolCall], tools: Sequence[Tool], toolbox: Toolbox) -> None:
        super().__init__()
        self._calls = list(calls)
        self._tools = {tool.called: tool for tool in tools}
        self._toolbox = toolbox
        self._future: Future[ToolResult] | None = None
        self._is_stopped = False
        self._returned.connect(self._take)

    @property
    def current(self) -> ToolCall | None:
        """The first call that has no result yet."""
        return next((call for call in self._calls if not call.has_ended), None)

    def go_on(self) -> None:
        """Goes on with the next call: runs it, or waits for the user's leave."""
        while (call := self.current) is not None and not self._is_stopped:
            tool = self._tools.get(call.called)
            if tool is None:
                call.end("failed", f"There is no tool called {call.called}.")
            elif problem := misfit(call.arguments, tool.parameters):
                call.end("failed", f"The arguments do not fit: {problem}")
            elif self._toolbox.needs_leave(tool):
                call.status = "asking"
                self.changed.emit()
                return
            else:
                self._run(call, tool)
                return
        if not self._is_stopped:
            self.changed.emit()
            self.ended.emit()

    def decide(self, call: ToolCall, decision: Decision) -> None:
        """Takes the user's decision about the call that waits for it."""
        tool = self._tools.get(call.called)
        if call is not self.current or call.status != "asking" or tool is None or self._is_stopped:
            return
        if decision == "no":
            call.end("refused", REFUSED)
            self.go_on()
            return
        if decision == "always":
            self._toolbox.grant(tool)
        self._run(call, tool)

    def stop(self) -> None:
        """Ends the running call; those without a result are refused."""
        self._is_stopped = True
        if self._future is not None:
            self._future.cancel()
        for call in self._calls:
            if not call.has_ended:
                call.end("refused", tr("The answer was stopped."))

    def _run(self, call: ToolCall, tool: Tool) -> None:
        call.status = "running"
        self._future = self._toolbox.call(tool, call.arguments)
        self.changed.emit()
        self._future.add_done_callback(self._returned.emit)

    @Slot(object)
    def _take(self, future: Future[ToolResult]) -> None:
        call = self.current
        if future is not self._future or call is None or self._is_stopped:
            return
        self._future = None
        try:
            result = future.result(0)
        except (SafelightError, CancelledError) as error:
            call.end("failed", str(error) or "The call was cancelled.")
        else:
            call.end("failed" if result.is_error else "done", result.text, result.seconds)
        self.go_on()
