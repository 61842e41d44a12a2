"""Chat, a stream, tools by an agent, structured output by schema and by a forced call: chat and Responses."""

import os
import subprocess

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


def bash(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


def model(name: str, **more: object) -> ChatOpenAI:
    base = os.environ[name.upper()] + "/v1"
    return ChatOpenAI(model=name, base_url=base, api_key=os.environ["KEY"], max_retries=0, **more)


for responses in (False, True):
    more = {"reasoning": {"effort": "low", "summary": "auto"}} if responses else {"top_p": 0.9}
    said = model("small", use_responses_api=responses, **more).invoke("Reverse the word robot.")
    assert (said.text, said.usage_metadata["output_tokens"]) == ("tobor", 5)
    chunks = list(model("small", use_responses_api=responses, stream_usage=True).stream("Reverse the word robot."))
    assert "".join(chunk.text for chunk in chunks) == "tobor"
    ended = create_agent(model("agent", use_responses_api=responses), [bash]).invoke({"messages": "Write the proof."})
    assert ended["messages"][-1].text == "The command said: safelight"
    asked = model("small", use_responses_api=responses, max_tokens=500)
    assert isinstance(asked.with_structured_output(Person).invoke("A person."), Person)
forced = model("small", max_tokens=500, seed=1).with_structured_output(Person, method="function_calling")
assert isinstance(forced.invoke("A person."), Person)
