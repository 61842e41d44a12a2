"""``inspect_run``: what it says of a run of several blocks, of a step, and of many steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.server.mcp import inspecting
from tests.engine.server.mcp.asking import asking, refusal, texts
from tests.engine.server.served import CANVAS, ScriptedEngine, Served, serving


def test_a_run_is_described_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(served: Served) -> None:
        async with asking(served) as client:
            made = await client.call_tool("generate", {"prompt": "Hi"})
            assert made.structured_content is not None
            run = {"run_id": made.structured_content["run_id"]}
            found: Any = await client.call_tool("inspect_run", run)
            rows = found.structured_content["rows"]
            assert [(row["block"], row["step_of_block"]) for row in rows] == [(1, 1), (1, 2), (2, 1), (2, 2)]
            assert {row["accepted"] for row in rows} == {CANVAS}
            assert {row["renoised"] for row in rows} == {row["taken_back"] for row in rows} == {0}
            assert {row["entropy"] for row in rows} == {0.1}
            assert found.structured_content["blocks"] == ["converged", "converged"]
            assert texts(found)[0].count("\n") == 4
            for step, draft in ((1, "a" * CANVAS), (4, "a" * CANVAS + "b")):
                at: Any = await client.call_tool("inspect_run", {**run, "step": step})
                assert at.structured_content["draft"] == draft
                assert draft in texts(at)[0]
            assert "has 4 steps" in refusal(await client.call_tool("inspect_run", {**run, "step": 5}))
            monkeypatch.setattr(inspecting, "MOST_ROWS", 2)
            some: Any = await client.call_tool("inspect_run", run)
            assert [row["step"] for row in some.structured_content["rows"]] == [1, 4]
            assert "(2 steps left out)" in texts(some)[0]

    engine = ScriptedEngine()
    engine.says, engine.steps = "a" * CANVAS + "b", 2
    with serving(engine) as served:
        asyncio.run(ask(served))
