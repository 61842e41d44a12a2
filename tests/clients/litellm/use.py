"""Chat, a stream, tools, structured output, Responses, text, hosted_vllm, and its /v1/messages bridge."""

import asyncio
import json
import os
import subprocess

import litellm
from pydantic import BaseModel

ASKED = [{"role": "user", "content": "Reverse the word robot."}]
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Runs.", "parameters": PARAMETERS}}]


class Person(BaseModel):
    name: str
    age: int


def at(name: str, provider: str = "openai") -> dict[str, object]:
    return {"model": f"{provider}/{name}", "api_base": os.environ[name.upper()] + "/v1", "api_key": os.environ["KEY"]}


for provider in ("openai", "hosted_vllm", "lm_studio"):
    said = litellm.completion(**at("small", provider), messages=ASKED, top_p=0.9)
    assert (said.choices[0].message.content, said.usage.completion_tokens) == ("tobor", 5)
chunks = list(litellm.completion(**at("small"), messages=ASKED, stream=True, stream_options={"include_usage": True}))
assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "tobor"
formed = litellm.completion(**at("small"), messages=ASKED, response_format=Person, max_tokens=500, seed=1)
Person.model_validate_json(formed.choices[0].message.content)
assert litellm.text_completion(**at("small", "text-completion-openai"), prompt="A word.", max_tokens=8).choices
answer = litellm.responses(**at("small"), input="Reverse the word robot.")
assert answer.output[0].content[0].text == "tobor"

messages = [{"role": "user", "content": "Write the proof."}]
called = litellm.completion(**at("agent"), messages=messages, tools=TOOLS).choices[0].message
command = json.loads(called.tool_calls[0].function.arguments)["command"]
output = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
messages += [called, {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": output}]
ended = litellm.completion(**at("agent"), messages=messages, tools=TOOLS).choices[0].message
assert ended.content == "The command said: safelight"


async def bridge() -> None:
    """Asks as Anthropic's clients do; litellm asks us by Responses."""
    said = await litellm.anthropic.messages.acreate(**at("small"), messages=ASKED, max_tokens=64)
    assert said["content"][0]["text"] == "tobor", said
    asked = [{"role": "user", "content": "Write the proof."}]
    tools = [{"name": "bash", "description": "Runs.", "input_schema": PARAMETERS}]
    called = await litellm.anthropic.messages.acreate(**at("agent"), messages=asked, tools=tools, max_tokens=32_000)
    call = next(part for part in called["content"] if part["type"] == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "safelight"}
    asked += [{"role": "assistant", "content": called["content"]}, {"role": "user", "content": [result]}]
    ended = await litellm.anthropic.messages.acreate(**at("agent"), messages=asked, tools=tools, max_tokens=32_000)
    assert ended["content"][0]["text"] == "The command said: safelight", ended


asyncio.run(bridge())
