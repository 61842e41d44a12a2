"""Offers tools to the model of an answer, and runs the calls that its runs end with, with the user's leave."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.state.chat.calls import Decision, ToolCall, read_round
from app.state.chat.conversation import Answer
from app.system.i18n import tr
from app.tools.toolbox import Toolbox
from engine import SafelightError
from engine.service import LoadedModel
from engine.tools.tool import MAX_ROUNDS, REFUSED, Tool, ToolResult


class Calling(QObject):
    """Runs the calls of one round at a time, one after the other.

    ``changed`` is emitted at each change of a call, and ``ended`` once all of a round have a result. Without a toolbox
    no tools are offered.
    """

    changed = Signal()
    ended = Signal()
    _returned = Signal(object)  # a Future, in the thread of the servers

    def __init__(self, toolbox: Toolbox | None) -> None:
        super().__init__()
        self._toolbox = toolbox
        self._calls: list[ToolCall] = []
        self._tools: dict[str, Tool] = {}  # by the names that the model was offered
        self._future: Future[ToolResult] | None = None
        self._returned.connect(self._end_call)
        if toolbox is not None:
            toolbox.changed.connect(self._follow)

    def offered(self, model: LoadedModel) -> tuple[Tool, ...]:
        """Returns the tools that a model is offered: none if its template writes none."""
        return self._toolbox.offered if model.reads_tools and self._toolbox is not None else ()

    @property
    def _current(self) -> ToolCall | None:
        return next((call for call in self._calls if not call.has_ended), None)

    def begin(self, answer: Answer, model: LoadedModel, tools: tuple[Tool, ...]) -> bool:
        """Turns an answer's finished run into a round of the calls that it ends with, and begins to run them.

        Returns False if it ends with none, or if there have been too many rounds.
        """
        if answer.status != "done" or len(answer.rounds) >= MAX_ROUNDS:
            return False
        schemas = {tool.called: tool.parameters or {} for tool in tools}
        tokens = answer.tokens
        tool_round = read_round(model.write(tokens) if tokens else answer.text, schemas, len(answer.rounds))
        if tool_round is None:
            return False
        tool_round.thinking = tool_round.thinking or answer.thinking
        answer.begin_calls(tool_round)
        self._calls, self._tools = tool_round.calls, {tool.called: tool for tool in tools}
        QTimer.singleShot(0, self._go_on)  # once the end of the run is shown
        return True

    def decide(self, call: ToolCall, decision: Decision) -> None:
        """Takes the user's decision about the call that waits for it.

        Raises:
            SafelightError: leave for always cannot be stored.
        """
        tool = self._tools.get(call.called)
        if call is not self._current or call.status != "asking" or tool is None:
            return
        if decision == "no":
            call.end("refused", REFUSED)
            self._go_on()
            return
        if decision == "always" and self._toolbox is not None:
            self._toolbox.grant(tool)
        self._run(call, tool)

    def stop(self) -> None:
        """Ends the running call; those without a result get none."""
        future, self._future = self._future, None
        if future is not None:
            future.cancel()
        for call in self._calls:
            if not call.has_ended:
                call.end("refused", tr("The answer was stopped."))
        self._calls = []

    @Slot()
    def _go_on(self) -> None:
        """Runs the next call, or waits for the user's leave; ends the round once there is none."""
        while (call := self._current) is not None:
            tool = self._tools.get(call.called)
            if tool is not None:
                assert self._toolbox is not None, "only its tools are offered"
                if self._toolbox.needs_leave(tool) and (server := self._toolbox.server_of(tool)) is not None:
                    call.status, call.server = "asking", server
                    self.changed.emit()
                else:
                    self._run(call, tool)
                return
            call.end("failed", f"There is no tool called {call.called}.")
        if self._calls:
            self._calls = []
            self.changed.emit()
            self.ended.emit()

    @Slot()
    def _follow(self) -> None:
        """Ends a call that waits for leave if its server is gone, or another has its name."""
        call = self._current
        if call is not None and call.status == "asking" and self._toolbox is not None:
            tool = self._tools[call.called]
            if self._toolbox.server_of(tool) is None:
                self._run(call, tool)  # which is refused

    def _run(self, call: ToolCall, tool: Tool) -> None:
        assert self._toolbox is not None, "only its tools are offered"
        call.status = "running"
        self._future = self._toolbox.call(tool, call.arguments)
        self.changed.emit()
        self._future.add_done_callback(self._returned.emit)

    @Slot(object)
    def _end_call(self, future: Future[ToolResult]) -> None:
        call = self._current
        if future is not self._future or call is None:
            return
        self._future = None
        try:
            result = future.result(0)
        except (SafelightError, CancelledError) as error:
            call.end("failed", str(error) or "The call was cancelled.")
        else:
            call.end("failed" if result.is_error else "done", result.text, result.seconds)
        self._go_on()
