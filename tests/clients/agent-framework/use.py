"""The default client (Responses) and the chat client: an answer, a stream, tools, structured output."""

import asyncio
import os
import subprocess
from typing import Annotated

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


@tool(approval_mode="never_require")
def bash(command: Annotated[str, "What is run."]) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


async def use() -> None:
    for kind in (OpenAIChatClient, OpenAIChatCompletionClient):

        def client(name: str, kind: type = kind) -> object:
            return kind(model=name, base_url=os.environ[name.upper()] + "/v1", api_key=os.environ["KEY"])

        small = Agent(client("small"))
        said = await small.run("Reverse the word robot.")
        assert said.text == "tobor"
        assert said.usage_details["output_token_count"] == 5
        stream = small.run("Reverse the word robot.", stream=True)
        assert len([part async for part in stream]) > 1
        assert (await stream.get_final_response()).text == "tobor"
        agent = Agent(client("agent"), tools=[bash])
        assert (await agent.run("Write the proof.")).text.endswith("The command said: safelight")
        formed = await small.run("A person.", options={"response_format": Person, "max_tokens": 500})
        assert isinstance(formed.value, Person)


asyncio.run(use())
