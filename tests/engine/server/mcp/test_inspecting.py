"""``inspect_run``: what it says of a run of several blocks, of a step, and of many steps."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from engine.events import CanvasStarted, PrefixPinned, StepFinished
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
            monkeypatch.setattr(inspecting, "MAX_ROWS", 2)
            some: Any = await client.call_tool("inspect_run", run)
            assert [row["step"] for row in some.structured_content["rows"]] == [1, 4]
            assert "(2 steps left out)" in texts(some)[0]

    engine = ScriptedEngine()
    engine.says, engine.steps = "a" * CANVAS + "b", 2
    with serving(engine) as served:
        asyncio.run(ask(served))


def step(number: int, accepted: list[bool]) -> StepFinished:
    row = np.zeros(len(accepted), dtype=np.int32)
    entropy = np.full(len(accepted), 0.5, dtype=np.float32)
    return StepFinished(0, number, 1.0, row, row, entropy, np.array(accepted), row, 0.01)


def test_a_position_is_taken_back_by_the_next_step_alone() -> None:
    row = np.zeros(3, dtype=np.int32)
    events = [
        CanvasStarted(0, row, np.zeros(3, dtype=np.bool_)),
        step(0, [True, True, False]),
        step(1, [True, False, True]),
        PrefixPinned(0, 2, 0, row, 1, 1),  # what is behind the pinned position is noise again
        step(2, [True, False, False]),
    ]
    rows = list(inspecting._rows(events))
    assert [row["taken_back"] for row in rows] == [0, 1, 0]
    assert [row["accepted"] for row in rows] == [2, 2, 1]
    assert [row["renoised"] for row in rows] == [1, 1, 2]
