"""The requests to the server, the newest first, each with its buttons. Knows no server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.bridge.server_link import is_unfinished
from app.design.controls import FocusGroup, button, label
from app.design.layouts import boxed, column_of, row_of
from app.server import words
from app.system.i18n import tr

if TYPE_CHECKING:
    from engine.server.live import LiveRequest

MOST_ROWS = 100  # rows; further requests are not listed until one is free


class RequestRow(QFrame):
    """The row of one request."""

    def __init__(self, request: LiveRequest) -> None:
        super().__init__()
        self.setProperty("role", "request")
        self.request = request
        self.state = label("", "request-state")
        self.title = label(words.endpoint_name(request.endpoint), "request-title")
        self.title.setToolTip(request.endpoint)
        self.time = label(words.clock(request), "fact")
        self.facts = label("", "fact", wrap=True)
        self.inspect = button(tr("Inspect"))
        self.stop = button(tr("Stop"))
        policy = self.stop.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # so that the title and facts line up with the other rows
        self.stop.setSizePolicy(policy)
        self._acts = FocusGroup(self.inspect, self.stop)
        head = row_of(self.title, (self.state, 1), self.time, spacing=12)
        said = column_of(head, self.facts, spacing=2)
        self.setLayout(
            row_of(
                (said, 1),
                (self.stop, 0, Qt.AlignmentFlag.AlignVCenter),
                (self.inspect, 0, Qt.AlignmentFlag.AlignVCenter),
                margins=(0, 8, 0, 8),
                spacing=16,
            )
        )
        self.show_request(request)

    def show_request(self, request: LiveRequest) -> None:
        """Shows the present state of the request."""
        self.request = request
        state, facts = words.request_state(request), words.request_facts(request)
        if (state, facts) != (self.state.text(), self.facts.text()):
            self.state.setText(state)
            self.facts.setText(facts)
            self.setAccessibleName(f"{self.title.text()}, {self.time.text()}, {state}, {facts}")
        which = f"{self.title.text()}, {self.time.text()}"
        with self._acts:
            self.stop.setVisible(is_unfinished(request))
            self.stop.setAccessibleName(tr("Stop: {request}", request=which))
            can = request.trace is not None and request.trace.header.canvas_length > 0
            self.inspect.setEnabled(can)
            self.inspect.setAccessibleName(tr("Inspect: {request}", request=which))
            why = tr("Shows how the answer was written") if can else self._uninspected()
            self.inspect.setToolTip(why)
            self.inspect.setAccessibleDescription(why)

    def _uninspected(self) -> str:
        if self.request.trace is not None:
            return tr("The server that runs the model only sends text, so there is nothing to inspect")
        if is_unfinished(self.request):
            return tr("It waits for its turn")
        return tr("It ended before the model began to answer, so there is nothing to inspect")


class RequestList(QWidget):
    """Shows a row for each request; without requests, it shows how to send one."""

    inspect_asked = Signal(object)  # LiveRequest
    stop_asked = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Requests"))
        self.rows: dict[str, RequestRow] = {}
        self.lesson = label("", "fact", wrap=True)
        self.connect_button = button(tr("Connect a program"), role="plain")
        self.empty = boxed(column_of(self.lesson, self.connect_button, margins=(0, 8, 0, 8), spacing=12))
        self._column = column_of(self.empty, spacing=0)
        self.setLayout(self._column)
        self.teach(is_on=False)

    def teach(self, *, is_on: bool) -> None:
        """Shows how to send the first request."""
        begin = "" if is_on else tr("Switch the server on. ")
        self.lesson.setText(
            begin
            + tr(
                "Enter the address and the key in your program, or copy a command into a terminal. Each request "
                "is listed here while it is answered, and can be watched in the inspector."
            )
        )

    def show_requests(self, requests: Sequence[LiveRequest]) -> None:
        """Shows these requests, newest first."""
        shown = requests[:MOST_ROWS]
        for gone in self.rows.keys() - {request.id for request in shown}:
            row = self.rows.pop(gone)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        for place, request in enumerate(shown):
            row = self.rows.get(request.id) or self._add(request)
            if self._column.indexOf(row) != place + 1:
                self._column.insertWidget(place + 1, row)
            if row.request != request or row.request.trace is not request.trace:
                row.show_request(request)
        self.empty.setVisible(not shown)

    def _add(self, request: LiveRequest) -> RequestRow:
        row = self.rows[request.id] = RequestRow(request)
        row.inspect.clicked.connect(lambda: self.inspect_asked.emit(row.request))
        row.stop.clicked.connect(lambda: self.stop_asked.emit(row.request))
        return row
