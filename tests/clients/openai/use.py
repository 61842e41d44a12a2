"""Chat, a stream, its helper, parse, tools, log-probabilities, completions, gaps, responses with tools."""

import json
import os
import subprocess

from openai import OpenAI
from pydantic import BaseModel

ASKED = [{"role": "user", "content": "Reverse the word robot."}]


class Person(BaseModel):
    name: str
    age: int


def bash(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


small = OpenAI(base_url=os.environ["SMALL"] + "/v1", api_key=os.environ["KEY"])
agent = OpenAI(base_url=os.environ["AGENT"] + "/v1", api_key=os.environ["KEY"])
assert [model.id for model in small.models.list()] == ["small"]

said = small.chat.completions.create(model="small", messages=ASKED, logprobs=True, top_logprobs=2)
assert (said.choices[0].message.content, said.choices[0].finish_reason) == ("tobor", "stop")
assert said.usage
assert said.usage.completion_tokens == 5
assert "".join(one.token for one in said.choices[0].logprobs.content) == "tobor"
assert all(len(one.top_logprobs) == 2 for one in said.choices[0].logprobs.content)

chunks = list(
    small.chat.completions.create(model="small", messages=ASKED, stream=True, stream_options={"include_usage": True})
)
assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "tobor"
assert chunks[-1].usage
assert chunks[-1].usage.total_tokens == said.usage.total_tokens
with small.chat.completions.stream(model="small", messages=ASKED) as stream:
    kinds = {event.type for event in stream}
    assert stream.get_final_completion().choices[0].message.content == "tobor"
assert {"chunk", "content.delta", "content.done"} <= kinds

parsed = small.chat.completions.parse(model="small", messages=ASKED, response_format=Person, max_tokens=500, seed=1)
assert isinstance(parsed.choices[0].message.parsed, Person)

text = small.completions.create(model="small", prompt="Reverse the word robot.", max_tokens=8)
assert text.object == "text_completion"
assert text.usage.completion_tokens <= 8
gap = {"model": "agent", "prompt": "# Say «number / 2; done».\nreturn ", "suffix": "\n\nprint(half(4))", "stop": [";"]}
assert [one.text for one in agent.completions.create(**gap, max_tokens=64, n=2).choices] == ["number / 2"] * 2
parts = agent.completions.create(**gap, max_tokens=64, stream=True)
assert "".join(one.choices[0].text for one in parts) == "number / 2"

parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"type": "function", "function": {"name": "bash", "description": "Runs.", "parameters": parameters}}]
messages = [{"role": "user", "content": "Write the proof."}]
called = agent.chat.completions.create(model="agent", messages=messages, tools=tools).choices[0]
assert called.finish_reason == "tool_calls"
assert len(called.message.tool_calls) == 1
call = called.message.tool_calls[0]
answer = bash(**json.loads(call.function.arguments))
messages += [called.message, {"role": "tool", "tool_call_id": call.id, "content": answer}]
ended = agent.chat.completions.create(model="agent", messages=messages, tools=tools).choices[0]
assert (ended.message.content, ended.finish_reason) == ("The command said: safelight", "stop")

response = small.responses.create(model="small", input="Reverse the word robot.")
assert (response.output_text, response.status) == ("tobor", "completed")
events = list(small.responses.create(model="small", input="Reverse the word robot.", stream=True))
assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == "tobor"
assert isinstance(small.responses.parse(model="small", input="A person.", text_format=Person).output_parsed, Person)

flat = [{"type": "function", "name": "bash", "parameters": parameters, "strict": False}]
heard = [{"role": "user", "content": "Write the proof."}]
first = agent.responses.create(model="agent", input=heard, tools=flat, include=["reasoning.encrypted_content"])
call = next(one for one in first.output if one.type == "function_call")
answer = bash(**json.loads(call.arguments))
heard += [*first.output, {"type": "function_call_output", "call_id": call.call_id, "output": answer}]
assert agent.responses.create(model="agent", input=heard, tools=flat).output_text == "The command said: safelight"
