"""The user's leave to call tools, as plain data. Knows neither Qt nor files.

Leave is bound to what is run or asked (``ToolServer.identity``), not to a name that a file may give to another program.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from engine.tools.declared import ToolServer
from engine.tools.tool import Tool

Names = Mapping[str, frozenset[str]]
"""Names of tools by the identity of their server."""


@dataclass(frozen=True)
class Leave:
    """The tools that are offered, and those that may be called without a question.

    Args:
        off: tools that models are not offered.
        always: tools that may be called without a question.
        reads: tools of which their server says that they change nothing may be called without a question.
    """

    off: Names = field(default_factory=dict)
    always: Names = field(default_factory=dict)
    reads: bool = False

    def is_offered(self, server: ToolServer, tool: str) -> bool:
        return tool not in self.off.get(server.identity, ())

    def is_free(self, server: ToolServer, tool: Tool) -> bool:
        """Returns True if a tool may be called without a question."""
        return tool.name in self.always.get(server.identity, ()) or (self.reads and tool.is_read_only)

    def offering(self, server: ToolServer, tool: str, *, offers: bool) -> Leave:
        """Returns a copy by which a tool is offered or not."""
        return replace(self, off=_with(self.off, server, tool, has=not offers))

    def granting(self, server: ToolServer, tool: str, *, always: bool) -> Leave:
        """Returns a copy by which a tool may be called without a question or not."""
        return replace(self, always=_with(self.always, server, tool, has=always))

    def only(self, known: Set[str]) -> Leave:
        """Returns the leave of the servers with these identities alone."""
        off, always = ({one: found[one] for one in found if one in known} for found in (self.off, self.always))
        return replace(self, off=off, always=always)


def _with(names: Names, server: ToolServer, tool: str, *, has: bool) -> Names:
    own = names.get(server.identity, frozenset())
    changed = own | {tool} if has else own - {tool}
    others = {identity: found for identity, found in names.items() if identity != server.identity}
    return others | ({server.identity: changed} if changed else {})
