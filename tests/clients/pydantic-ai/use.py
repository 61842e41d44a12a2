"""Chat, a stream, tools in a loop, the default output_type, NativeOutput, Responses."""

import os
import subprocess

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider


class Person(BaseModel):
    name: str
    age: int


def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


def provider(name: str) -> OpenAIProvider:
    return OpenAIProvider(base_url=os.environ[name] + "/v1", api_key=os.environ["KEY"])


small = OpenAIChatModel("small", provider=provider("SMALL"))
said = Agent(small).run_sync("Reverse the word robot.")
assert said.output == "tobor"
assert said.usage.output_tokens == 5
streamed = Agent(small).run_stream_sync("Reverse the word robot.")
assert list(streamed.stream_text())[-1] == "tobor"
summary = OpenAIResponsesModelSettings(openai_reasoning_summary="auto", openai_reasoning_effort="low")
responses = OpenAIResponsesModel("small", provider=provider("SMALL"), settings=summary)
assert Agent(responses).run_sync("Reverse the word robot.").output == "tobor"
for model in (OpenAIChatModel, OpenAIResponsesModel):
    agent = Agent(model("agent", provider=provider("AGENT")), tools=[bash])
    assert agent.run_sync("Write the proof.").output == "The command said: safelight"
settings = {"max_tokens": 500, "seed": 1}
native = Agent(small, output_type=NativeOutput(Person), retries=0, model_settings=settings)
assert isinstance(native.run_sync("A person.").output, Person)
typed = Agent(small, output_type=Person, retries=0, model_settings=settings)
assert isinstance(typed.run_sync("A person.").output, Person)
