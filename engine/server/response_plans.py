"""The plans of a response's runs: one, and one more after each round of calls of the user's tools."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from engine.server.chat import plan_chat
from engine.server.context import ServerContext
from engine.server.errors import ApiError
from engine.server.hosted_tools import ApprovedCall, HostedTools, read_items
from engine.server.kept import Item
from engine.server.planning import RunPlan
from engine.server.response_writer import Keep
from engine.server.responses_request import ResponsesRequest, chat_of, renamed


class ResponsePlans:
    """Plans the runs of one response. Slow, as its methods are.

    Raises:
        ApiError: it cannot be run as requested.
    """

    def __init__(self, context: ServerContext, sent: ResponsesRequest, hosted: HostedTools) -> None:
        self._context, self._sent, self._hosted = context, sent, hosted
        self._conversation = context.kept.open(sent.input, sent.previous_response_id)
        self.approved: list[ApprovedCall] = []  # calls that must be made first
        self.listed = frozenset(  # servers whose tools are in the conversation
            str(item.get("server_label")) for item in self._conversation.items if item.get("type") == "mcp_list_tools"
        )
        self.first = self.plan()

    @property
    def most_calls(self) -> int | None:
        """The most calls that the client wants made; None if any number."""
        return self._sent.max_tool_calls

    @property
    def keep(self) -> Keep | None:
        """Keeps the response; None if it is not to be kept, or too large."""
        kept = self._context.kept
        is_kept = self._sent.store is not False and kept.has_room(self._conversation)
        return functools.partial(kept.keep, self._conversation) if is_kept else None

    def plan(self, output: Sequence[Item] = (), used: int = 0) -> RunPlan:
        """Plans a run.

        Args:
            output: items of the response so far.
            used: tokens of them that the model has written.

        Raises:
            ApiError: it cannot be run.
        """
        sent, items = self._sent, [*self._conversation.items, *output]
        changes: dict[str, Any] = {"tools": [*sent.functions, *self._hosted.functions] or None}
        try:
            changes["input"], self.approved = read_items(items, self._hosted)
            choice = self._hosted.choice(sent.tool_choice)
            if output:
                changes["seed"] = self.first.request.seed  # which the response names
                if sent.max_output_tokens is not None:
                    changes["max_output_tokens"] = max(0, sent.max_output_tokens - used)
            is_answered = items[-1].get("type") == "mcp_approval_response"
            changes["tool_choice"] = _freed(choice) if output or is_answered else choice
            return _plan_whole(self._context, sent.model_copy(update=changes))
        except ApiError as error:
            if changes.get("input") != sent.input and (error.param or "").startswith("input."):
                error.param = "input"  # its places are others than those of what was sent
            raise


def _freed(choice: Any) -> Any:
    """Returns a ``tool_choice`` by which no call is forced: those that were are made."""
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {**choice, "mode": "auto"}
    return choice if choice in (None, "none") else "auto"


def _plan_whole(context: ServerContext, body: ResponsesRequest) -> RunPlan:
    chat = chat_of(body)
    try:
        found = plan_chat(context, chat)
    except ApiError as error:
        raise renamed(error, body, chat) from None
    is_text = found.format_field == "response_format"
    return dataclasses.replace(found, format_field="text.format") if is_text else found
