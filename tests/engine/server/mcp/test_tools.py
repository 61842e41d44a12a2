"""The tools with the embedded models that were made for them, and what ``inspect_run`` says of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine.catalog import MINI, SUDOKU
from engine.events import CanvasStarted, PrefixPinned, StepFinished
from engine.server.mcp import inspecting
from tests.engine.server.mcp.asking import asking, refusal, texts
from tests.engine.server.served import CANVAS, ScriptedEngine, Served, serving
from tests.loaded import ReadyBackend

EASY = "534678912672195348198342567859761423426853791713924856961537284287419635345286100"


@pytest.fixture(scope="module")
def mini() -> Iterator[Served]:
    with serving(ReadyBackend(), MINI) as served:
        yield served


def asked(served: Served, tool: str, *calls: dict[str, Any]) -> list[Any]:
    """Returns the results of calls of a tool."""

    async def ask() -> list[Any]:
        async with asking(served) as client:
            return [await client.call_tool(tool, arguments) for arguments in calls]

    return asyncio.run(ask())


def test_skills_answer_a_prompt_and_fit_a_schema(mini: Served) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    prompts = [{"prompt": "Reverse the word robot.", **more} for more in ({"seed": 1}, {"schema": schema})]
    bad = {**prompts[0], "schema": {"type": "nothing"}}
    plain, fitted, wrong = asked(mini, "generate", *prompts, bad)
    assert "schema" in refusal(wrong)
    assert texts(plain)[0] == "tobor"
    assert texts(plain)[2] == plain.structured_content["caution"]
    assert "very small model" in texts(plain)[2]
    assert texts(fitted)[0].startswith('{"n": ')


def test_a_gap_may_have_a_length(mini: Served) -> None:
    [found] = asked(mini, "infill", {"prefix": "2 4 6 ", "suffix": " 10 12", "length": 2})
    assert found.structured_content["tokens"] <= 2
    assert texts(found)[0] == found.structured_content["text"]


def test_a_grid_is_judged_by_the_rules() -> None:
    with serving(ReadyBackend(), SUDOKU) as served:
        [found] = asked(served, "sudoku", {"puzzle": EASY})
    grid = found.structured_content["grid"]
    assert len(grid) == 81
    assert found.structured_content["valid"] is True
    assert grid.endswith("179")
    assert texts(found)[0].endswith("This solves the puzzle.")


def test_a_decision_has_its_probabilities(mini: Served) -> None:
    even = {"question": "Is the number even?", "kind": "yes_no", "text": "The number is 52."}
    day = {"question": "When does Zoe come?", "kind": "choice", "options": ["workday", "weekend"]}
    day["text"] = "Zoe comes on Saturday."
    size = {"question": "How large is it?", "kind": "score", "options": ["small", "large"], "text": "It is large."}
    results = asked(mini, "decide", even, day, size)
    for found, best in zip(results, ("yes", "weekend", "large"), strict=True):
        shares = found.structured_content["probabilities"]
        assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
        assert found.structured_content["answer"] == max(shares, key=shares.get) == best
        assert texts(found)[0].startswith(best)
    assert results[2].structured_content["score"] == pytest.approx(shares["large"], abs=1e-3)


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
