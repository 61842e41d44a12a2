"""The ``llm`` command's own client, which nobody here wrote: it asks, streams, goes on, and calls tools."""

from __future__ import annotations

from collections.abc import Iterator

import llm
import pytest
from llm.default_plugins.openai_models import Chat

from tests.engine.server.served import KEY, ScriptedEngine, Served, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(ScriptedEngine()) as served:
        yield served


@pytest.fixture
def model(served: Served) -> llm.Model:
    found = Chat("local", key="none", model_name="scripted", api_base=f"{served.server.url}/v1", supports_tools=True)
    found.key = KEY
    served.engine.prompts.clear()
    return found


@pytest.mark.parametrize("is_streamed", [False, True])
def test_it_asks_and_goes_on(served: Served, model: llm.Model, is_streamed: bool) -> None:
    served.engine.says = "Hello there, " + "and so on. " * 5
    talk = model.conversation()
    first = talk.prompt("Hi", system="Be brief.", stream=is_streamed)
    assert first.text() == served.engine.says
    assert first.usage().output == len(served.engine.says)
    talk.prompt("And?", stream=is_streamed).text()
    assert [message["role"] for message in served.engine.prompts[-1]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_it_calls_tools(served: Served, model: llm.Model, is_streamed: bool) -> None:
    def weather(city: str) -> str:
        """The weather of a city."""
        served.engine.says = f"It rains in {city}."
        return "rain"

    served.engine.says = '<|channel>thought\nHm.<channel|><|tool_call>call:weather{city:<|"|>Bonn<|"|>}<tool_call|>'
    chain = model.conversation(tools=[weather]).chain("Rain?", stream=is_streamed)
    assert chain.text().endswith("It rains in Bonn.")
    *_, call, result = served.engine.prompts[-1]
    assert call["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Bonn"}}
    assert (result["role"], result["name"], result["content"]) == ("tool", "weather", "rain")
