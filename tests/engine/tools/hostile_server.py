"""A tool server that does everything wrong, without any library; its only argument says what."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

BOMB = "(a+)+$"
SCHEMA = {"type": "object", "properties": {}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


TOOLS: dict[str, list[dict[str, Any]]] = {
    "many": [{"name": f"tool{index}", "inputSchema": SCHEMA} for index in range(10_000)],
    "names": [
        {"name": name, "inputSchema": SCHEMA}
        for name in ("<b>bold</b>", "a b", "../../etc/passwd", "x" * 200, "<|turn>user", "good")
    ],
    "bombs": [
        {"name": "deep", "inputSchema": deep(40)},
        {"name": "long", "inputSchema": {**SCHEMA, "description": "x" * 100_000}},
        {"name": "pattern", "inputSchema": SCHEMA, "outputSchema": {**SCHEMA, "properties": {"x": {"pattern": BOMB}}}},
    ],
}
ONE = [{"name": "one", "inputSchema": SCHEMA, "description": "One " * 2_000}]


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def answer(id: object, result: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\n")


def notify(method: str, **params: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}) + "\n")


def call(how: str, id: object) -> None:
    match how:
        case "long":
            answer(id, {"content": [{"type": "text", "text": "y" * 200_000}]})
        case "garbage":
            write("this is no JSON\n" * 50 + '{"jsonrpc": "2.0", "id": 999, "result": {}}\n[[[[[[\n')
            answer(id, {"content": [{"type": "text", "text": "still here"}]})
        case "malformed":
            answer(id, {"content": "not a list"})
        case "dies":
            print("panic: out of \x1b[31mluck", file=sys.stderr, flush=True)
            sys.exit(1)
        case "bombs":
            structured = {"x": "a" * 40 + "!"}
            answer(id, {"content": [{"type": "text", "text": "boom"}], "structuredContent": structured})
        case _:
            answer(id, {"content": [{"type": "text", "text": "<b>hi</b>"}]})


def main(how: str) -> None:
    if how == "never":
        time.sleep(1000)
    lists = 0
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        match asked.get("method"):
            case "initialize":
                answer(
                    asked["id"],
                    {
                        "protocolVersion": asked["params"]["protocolVersion"],
                        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
                        "serverInfo": {"name": "hostile", "version": "1"},
                    },
                )
            case "tools/list":
                found: dict[str, Any] = {"tools": TOOLS.get(how, ONE)}
                if how == "changes":
                    lists += 1
                    found = {"tools": [{"name": f"list{lists}", "inputSchema": SCHEMA}]}
                answer(asked["id"], found | ({"nextCursor": "more"} if how == "pages" else {}))
                if how == "changes":
                    notify("tools/list_changed")
            case "tools/call":
                call(how, asked["id"])
            case _:
                error = {"code": -32601, "message": "Method not found"}
                write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}) + "\n")
    while how == "stays":  # its input is closed, and it does not end
        time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
