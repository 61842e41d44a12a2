"""The tools of the user's servers for one response: their names for the model, and their calls in its input."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import SafelightError, quoted
from engine.server.errors import ApiError, unsupported
from engine.server.hosted_request import ServerTools
from engine.server.kept import Item
from engine.server.responses_request import ResponseTool, text_of
from engine.server.schemas import MOST_TOOLS
from engine.server.user_tools import UserTools
from engine.tools.tool import REFUSED, Tool, distinct

LONGEST_NAME = 64  # characters, as of the functions of clients


@dataclass(frozen=True, eq=False)
class ApprovedCall:
    """A call that the client has approved, and the id of the request that asked for it."""

    request: str
    tool: Tool
    arguments: str


@dataclass(frozen=True, eq=False)
class HostedTools:
    """The tools of the servers that a request names.

    Args:
        servers: the tools of each server.
        called: all of them, by the names that the model calls them by.
        asking: those of these names that need the client's approval.
    """

    servers: dict[str, list[Tool]] = field(default_factory=dict)
    called: dict[str, Tool] = field(default_factory=dict)
    asking: frozenset[str] = frozenset()

    @property
    def functions(self) -> list[ResponseTool]:
        """The tools as functions for the model."""
        return [
            ResponseTool(type="function", strict=True, **tool.function["function"]) for tool in self.called.values()
        ]

    def names(self, server: object, name: object = None) -> list[str]:
        """Returns the names by which the model calls all tools of a server, or one of them."""
        return [called for called, tool in self.called.items() if tool.server == server and name in (None, tool.name)]

    def find(self, server: str, name: str) -> Tool | None:
        """Returns a tool of a server."""
        return next((self.called[called] for called in self.names(server, name)), None)

    def choice(self, choice: Any) -> Any:
        """Returns a ``tool_choice`` with functions in place of the servers that it names."""
        match choice:
            case {"type": "mcp"}:
                return {"type": "allowed_tools", "mode": "required", "tools": self._chosen(choice)}
            case {"type": "allowed_tools", "tools": list(tools)}:
                return {**choice, "tools": [one for tool in tools for one in self._chosen(tool)]}
        return choice

    def _chosen(self, entry: Any) -> list[Any]:
        if not isinstance(entry, dict) or entry.get("type") != "mcp":
            return [entry]
        names = self.names(entry.get("server_label"), entry.get("name"))
        return [{"type": "function", "name": name} for name in names]


async def hosted_tools(tools: UserTools | None, asked: Sequence[ServerTools], taken: Iterable[str]) -> HostedTools:
    """Returns the tools of the servers that are asked for, once these are ready.

    Args:
        taken: names of the client's own functions.

    Raises:
        ApiError: there is no such server, or it does not run.
    """
    if not asked:
        return HostedTools()
    if tools is None:
        raise unsupported("This server runs no tools. Start it as safelight serve --mcp to use them.", "tools")
    if len({one.server_label for one in asked}) < len(asked):
        raise ApiError(400, "Two tools have the same server_label; join them.", param="tools")
    servers = {one.server_label: [tool for tool in await _tools_of(tools, one) if one.allows(tool)] for one in asked}
    functions = list(taken)
    called = _named(distinct(tool for own in servers.values() for tool in own), functions)
    if (count := len(called) + len(functions)) > MOST_TOOLS:
        said = f"There are {count} tools, and {MOST_TOOLS} are the most. Choose some of a server's in allowed_tools."
        raise ApiError(400, said, param="tools")
    needs = {one.server_label: one.needs_approval for one in asked}
    return HostedTools(servers, called, frozenset(name for name, tool in called.items() if needs[tool.server](tool)))


async def _tools_of(tools: UserTools, asked: ServerTools) -> tuple[Tool, ...]:
    label = asked.server_label
    if label not in tools.servers:
        known = ", ".join(map(quoted, tools.servers))
        raise ApiError(400, f"There is no tool server called {quoted(label)}; there is {known}.", param="tools")
    try:
        state = await asyncio.wrap_future(tools.reach(label))
    except SafelightError as error:
        raise ApiError(424, f"{error}.", param="tools") from None
    if state.status != "ready":
        raise ApiError(424, f"The tool server {quoted(label)} {state.problem or 'has ended'}.", param="tools")
    return tools.offered(state)


def _named(tools: Iterable[Tool], taken: Iterable[str]) -> dict[str, Tool]:
    """Returns tools by names that functions may have, each unlike all others and those that are taken."""
    found, others = dict[str, Tool](), set(taken)
    for tool in tools:
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", tool.called)[:LONGEST_NAME]
        name, number = stem, 1
        while name in found or name in others:
            number += 1
            name = f"{stem[: LONGEST_NAME - 5]}_{number}"
        found[name] = dataclasses.replace(tool, called=name)
    return found


def read_items(items: Sequence[Item], hosted: HostedTools) -> tuple[list[Item], list[ApprovedCall]]:
    """Returns an input with calls of functions in place of those of the user's tools.

    Also returns the calls that are approved and were not made yet; until then their result is empty.

    Raises:
        ApiError: an item is malformed, or a request that is answered is not there.
    """
    found, approved = list[Item](), list[ApprovedCall]()
    asked = {str(item.get("id")): item for item in items if item.get("type") == "mcp_approval_request"}
    ended = {str(item.get("approval_request_id")) for item in items if item.get("type") == "mcp_call"}
    for place, item in enumerate(items):
        where = f"input.{place}"
        match item.get("type"):
            case "mcp_list_tools" | "mcp_approval_request":
                continue
            case "mcp_call":
                found += _as_function(item, where, hosted, _result(item))
            case "mcp_approval_response":
                request, name = _answered(item, where, asked)
                if name in ended:
                    continue
                ended.add(name)
                if item["approve"]:
                    approved.append(_approved(request, where, hosted))
                reason = f" {item['reason']}" if isinstance(item.get("reason"), str) else ""
                found += _as_function(request, where, hosted, "" if item["approve"] else REFUSED + reason)
            case _:
                found.append(item)
    return found, approved


def _answered(item: Item, where: str, asked: dict[str, Item]) -> tuple[Item, str]:
    """Returns the request that is answered, and its id."""
    name = text_of(item, "approval_request_id", where)
    if not isinstance(item.get("approve"), bool):
        raise ApiError(400, "approve must be true or false.", param=f"{where}.approve")
    if name not in asked:
        said = "There is no such request; send it in input, too, or go on by previous_response_id."
        raise ApiError(400, said, param=f"{where}.approval_request_id")
    return asked[name], name


def _approved(request: Item, where: str, hosted: HostedTools) -> ApprovedCall:
    server, name = text_of(request, "server_label", where), text_of(request, "name", where)
    tool = hosted.find(server, name)
    if tool is None:
        said = f"{quoted(name)} of {quoted(server)} is approved, but is not among the tools of this request."
        raise ApiError(400, said, param="tools")
    return ApprovedCall(text_of(request, "id", where), tool, text_of(request, "arguments", where))


def _as_function(item: Item, where: str, hosted: HostedTools, output: str) -> list[Item]:
    server, own, call = (text_of(item, field, where) for field in ("server_label", "name", "id"))
    tool = hosted.find(server, own)
    name, arguments = own if tool is None else tool.called, text_of(item, "arguments", where)
    return [
        {"type": "function_call", "call_id": call, "name": name, "arguments": arguments},
        {"type": "function_call_output", "call_id": call, "output": output},
    ]


def _result(item: Item) -> str:
    """Returns the result of a call as the model reads it."""
    match item:
        case {"output": str(output)}:
            return output
        case {"error": {"content": [{"text": str(text)}]}}:  # as this server writes it
            return text
        case {"error": error} if error:
            return json.dumps(error)
    return "This call was not made."
