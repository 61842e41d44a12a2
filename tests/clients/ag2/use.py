"""An answer, a stream, a tool in a loop, structured output: chat and Responses."""

import asyncio
import os
import subprocess

from ag2 import Agent
from ag2.config import OpenAIConfig, OpenAIResponsesConfig
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


async def use() -> None:
    for kind, more in ((OpenAIConfig, {"max_tokens": 500}), (OpenAIResponsesConfig, {"max_output_tokens": 500})):
        for streaming in (False, True):
            common = {"api_key": os.environ["KEY"], "streaming": streaming, **more}
            small = kind(model="small", base_url=os.environ["SMALL"] + "/v1", **common)
            agent = kind(model="agent", base_url=os.environ["AGENT"] + "/v1", **common)
            said = await Agent("small", config=small).ask("Reverse the word robot.")
            assert said.body == "tobor", said.body
            ended = await Agent("agent", config=agent, tools=[bash]).ask("Write the proof.")
            assert ended.body.endswith("The command said: safelight"), ended.body
            formed = await Agent("small", config=small, response_schema=Person).ask("A person.")
            assert isinstance(await formed.content(), Person)


asyncio.run(use())
