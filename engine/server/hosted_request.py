"""The tools of the user's servers in a request to ``/v1/responses``: which are asked for, and which need approval."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from engine.server.errors import unsupported
from engine.server.schemas import MOST_TOOLS
from engine.server.strict import Strict
from engine.tools.tool import Tool

_ADDRESSES = ("server_url", "connector_id", "tunnel_id", "authorization", "headers")
Names = Annotated[list[str], Field(max_length=MOST_TOOLS)]


class ToolFilter(Strict):
    """Tools by their names, by what their server says of them, or by both."""

    tool_names: Names | None = None
    read_only: bool | None = None

    @model_validator(mode="after")
    def _check_filter(self) -> Self:
        if self.tool_names is None and self.read_only is None:
            raise ValueError("name tools in tool_names, or give read_only")
        return self

    def takes(self, tool: Tool) -> bool:
        is_named = self.tool_names is None or tool.name in self.tool_names
        return is_named and self.read_only in (None, tool.is_read_only)


class ApprovalFilters(Strict):
    """The tools that are called without the client's approval, and those that are not; both: they are not."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


class ServerTools(Strict):
    """The tools of one of the user's servers, by its name."""

    PLACE = "tools."
    type: Literal["mcp"]
    server_label: str
    allowed_tools: Names | ToolFilter | None = None
    require_approval: Literal["always", "never"] | ApprovalFilters | None = None

    def allows(self, tool: Tool) -> bool:
        allowed = self.allowed_tools
        if isinstance(allowed, ToolFilter):
            return allowed.takes(tool)
        return allowed is None or tool.name in allowed

    def needs_approval(self, tool: Tool) -> bool:
        """Returns True unless the client has said that a tool is called without its approval."""
        asked = self.require_approval
        if not isinstance(asked, ApprovalFilters):
            return asked != "never"
        is_freed = asked.never is not None and asked.never.takes(tool)
        return not is_freed or (asked.always is not None and asked.always.takes(tool))


def refuse_addresses(tools: Any) -> None:
    """Checks that no tool of a body names an address: a client could make this server ask any.

    Raises:
        ApiError: one does.
    """
    for place, tool in enumerate(tools if isinstance(tools, list) else ()):
        named = _ADDRESSES if isinstance(tool, dict) and tool.get("type") == "mcp" else ()
        for field in named:
            if tool.get(field) is not None:
                raise unsupported(
                    f"{field} is not taken from clients: only servers that the user has declared are asked. "
                    "Name one in server_label.",
                    f"tools.{place}.{field}",
                )
