"""``/mcp`` as the protocol's own client speaks it: what it lists and answers, how it is cancelled, who may come in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
import pytest

from engine.service import Capabilities
from tests.engine.server.mcp.asking import asking, refusal, texts
from tests.engine.server.served import ScriptedEngine, Served, serving, within

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def run(ask: Callable[[Served], Coroutine[Any, Any, None]], engine: ScriptedEngine, model: str = "scripted") -> None:
    """Runs a client of a server of its own."""
    with serving(engine, model) as served:
        asyncio.run(ask(served))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_its_tools_are_listed_and_a_text_comes_with_its_run(mode: str) -> None:
    async def ask(served: Served) -> None:
        reports: list[tuple[float, str | None]] = []

        async def note(progress: float, _total: float | None, message: str | None) -> None:
            reports.append((progress, message))

        async with asking(served, mode) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["generate", "decide", "infill", "sudoku", "inspect_run"]
            for tool in tools:
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint is True
                assert tool.annotations.open_world_hint is False
            found = await client.call_tool("generate", {"prompt": "Hi", "seed": 7}, progress_callback=note)
        assert texts(found)[0] == "Hello there."
        assert found.structured_content is not None
        assert found.structured_content["seed"] == 7
        assert found.structured_content["tokens"] == 12
        assert found.structured_content["steps"] == served.engine.steps == len(reports)
        assert found.structured_content["run_id"] == served.server.live.snapshot()[0].id
        assert [progress for progress, _ in reports] == [1, 2, 3]
        assert reports[-1][1] == "Hello there."
        assert served.engine.seeds == [7]

    run(ask, ScriptedEngine())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_that_is_cancelled_ends_its_run_within_a_step(mode: str) -> None:
    async def ask(served: Served) -> None:
        async with asking(served, mode) as client:
            call = asyncio.create_task(client.call_tool("generate", {"prompt": "Hi"}))
            assert await asyncio.to_thread(
                within, lambda: served.scheduler.running > 0 and served.server.live.snapshot()
            )
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            [live] = served.server.live.snapshot()
            assert await asyncio.to_thread(within, live.cancel.is_set)
            served.engine.gate.release()
            assert await asyncio.to_thread(within, lambda: served.scheduler.running == 0)
        assert served.server.live.snapshot()[0].state == "cancelled"
        assert served.engine.steps_run <= 1

    engine = ScriptedEngine()
    engine.hold = True
    run(ask, engine)


def test_a_client_that_leaves_ends_the_run_of_its_session() -> None:
    engine = ScriptedEngine()
    engine.hold = True
    with serving(engine) as served:
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        opened = served.http.post("/mcp", json={**CALL, "method": "initialize", "params": start}, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        served.http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        params = {"name": "generate", "arguments": {"prompt": "Hi"}}
        call = {**CALL, "method": "tools/call", "params": params}
        with served.http.stream("POST", "/mcp", json=call, headers=session):
            assert within(lambda: served.scheduler.running > 0 and bool(served.server.live.snapshot()))
        [live] = served.server.live.snapshot()
        assert within(live.cancel.is_set)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("generate", {}, "The field 'prompt' is missing."),
    ("generate", {"prompt": "Hi", "promt": "Hi"}, "'promt' is not known"),
    ("generate", {"prompt": "Hi", "max_tokens": 0}, "must be 1 or more"),
    ("decide", {"question": "What?", "kind": "choice"}, "choice needs them"),
    ("decide", {"question": "So?", "kind": "yes_no", "options": ["a", "b"]}, "yes_no has none"),
    ("decide", {"question": "So?", "kind": "yes_no"}, "cannot decide"),
    ("sudoku", {"puzzle": "5"}, "81"),
    ("inspect_run", {"run_id": "nobody's\n"}, "no run"),
    ("write", {}, "use generate, decide"),
]


def test_a_call_that_fails_is_one_line_and_the_next_one_is_answered() -> None:
    async def ask(served: Served) -> None:
        async with asking(served) as client:
            for tool, arguments, sentence in BAD:
                assert sentence in refusal(await client.call_tool(tool, arguments))
            assert not served.server.live.snapshot()
            served.engine.fail_at = 0
            assert "Something went wrong" in refusal(await client.call_tool("generate", {"prompt": "Hi"}))
            served.engine.fail_at = None
            assert texts(await client.call_tool("generate", {"prompt": "Hi"}))[0] == "Hello there."

    engine = ScriptedEngine()
    engine.able = Capabilities()
    run(ask, engine)


def test_without_a_model_a_call_says_so() -> None:
    async def ask(served: Served) -> None:
        async with asking(served) as client:
            assert "No model is loaded" in refusal(await client.call_tool("generate", {"prompt": "Hi"}))

    run(ask, ScriptedEngine(), "")


def test_the_gate_and_the_bounds_are_those_of_the_other_routes() -> None:
    with serving(ScriptedEngine(), body_bytes=2_000) as served:
        url = f"{served.server.url}/mcp"
        stranger = httpx2.post(url, json=CALL, headers=ACCEPT)
        assert stranger.status_code == 401
        assert stranger.headers["www-authenticate"] == "Bearer"
        assert served.http.post("/mcp", json=CALL, headers={"Origin": "http://elsewhere.example"}).status_code == 403
        assert served.http.post("/mcp", json=CALL, headers={"Host": "elsewhere.example"}).status_code == 403
        assert served.http.get("/mcp", headers=ACCEPT).status_code == 405
        assert served.http.post("/mcp", content=b"[", headers={"Content-Type": "application/json"}).status_code == 400
        assert served.http.post("/mcp", json={"text": "x" * 2_000}).status_code == 413
