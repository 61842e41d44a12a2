"""A small tool server without any library, which starts at once: ``add``, ``wait`` and ``fail``."""

from __future__ import annotations

import json
import sys
from typing import Any

NUMBERS = {"first": {"type": "integer"}, "second": {"type": "integer"}}
TOOLS = [
    {"name": "add", "description": "Add two whole numbers.", "annotations": {"readOnlyHint": True},
     "inputSchema": {"type": "object", "properties": NUMBERS, "required": list(NUMBERS)}},
    {"name": "wait", "inputSchema": {"type": "object", "properties": {"seconds": {"type": "number"}}}},
    {"name": "fail", "inputSchema": {"type": "object", "properties": {}}},
]  # fmt: skip


def result(asked: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a request; None for none."""
    params = asked.get("params", {})
    match asked["method"]:
        case "initialize":
            server = {"name": "plain", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call" if params["name"] == "add":
            text = str(params["arguments"]["first"] + params["arguments"]["second"])
            return {"content": [{"type": "text", "text": text}]}
        case "tools/call" if params["name"] == "fail":
            return {"content": [{"type": "text", "text": "there is no such file"}], "isError": True}
    return None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    found = result(asked)
    if found is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": found}), flush=True)
    elif asked["method"] != "tools/call":
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
