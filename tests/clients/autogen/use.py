"""An assistant's answer, a stream, tools by a group chat, structured output."""

import asyncio
import os
import subprocess

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


async def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


def client(name: str, **more: object) -> OpenAIChatCompletionClient:
    can = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True}
    info = {**can, "family": "unknown"}
    base = os.environ[name.upper()] + "/v1"
    return OpenAIChatCompletionClient(model=name, base_url=base, api_key=os.environ["KEY"], model_info=info, **more)


async def use() -> None:
    asked = [UserMessage(content="Reverse the word robot.", source="user")]
    said = await client("small").create(asked)
    assert (said.content, said.finish_reason, said.usage.completion_tokens) == ("tobor", "stop", 5)
    parts = [part async for part in client("small").create_stream(asked, include_usage=True)]
    assert "".join(part for part in parts if isinstance(part, str)) == "tobor"
    assert parts[-1].usage.completion_tokens == 5
    formed = await client("small", max_tokens=500, seed=1).create(asked, json_output=Person)
    Person.model_validate_json(formed.content)
    worker = AssistantAgent("worker", client("agent"), tools=[bash], max_tool_iterations=5)
    end = TextMentionTermination("safelight", sources=["worker"]) | MaxMessageTermination(6)
    ended = await RoundRobinGroupChat([worker], termination_condition=end).run(task="Write the proof.")
    assert ended.messages[-1].content == "The command said: safelight"


asyncio.run(use())
