"""Chat, a stream, tools in a loop, response_format by a schema."""

import json
import os
import subprocess

from huggingface_hub import InferenceClient

ASKED = [{"role": "user", "content": "Reverse the word robot."}]
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}

small = InferenceClient(base_url=os.environ["SMALL"] + "/v1", api_key=os.environ["KEY"])
agent = InferenceClient(base_url=os.environ["AGENT"] + "/v1", api_key=os.environ["KEY"])

said = small.chat_completion(ASKED, max_tokens=64, seed=1)
assert (said.choices[0].message.content, said.choices[0].finish_reason) == ("tobor", "stop")
assert said.usage.completion_tokens == 5
chunks = list(small.chat_completion(ASKED, stream=True, stream_options={"include_usage": True}))
assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "tobor"
assert chunks[-1].usage.completion_tokens == 5
likely = small.chat_completion(ASKED, logprobs=True, top_logprobs=2).choices[0].logprobs
assert "".join(one.token for one in likely.content) == "tobor"

form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
formed = small.chat_completion(ASKED, response_format=form, max_tokens=200, seed=1).choices[0].message.content
assert isinstance(json.loads(formed)["age"], int), formed

parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"type": "function", "function": {"name": "bash", "description": "Runs.", "parameters": parameters}}]
messages = [{"role": "user", "content": "Write the proof."}]
called = agent.chat_completion(messages, tools=tools, tool_choice="auto", max_tokens=500).choices[0].message
(call,) = called.tool_calls
arguments = call.function.arguments
command = (json.loads(arguments) if isinstance(arguments, str) else arguments)["command"]
answer = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
messages += [called, {"role": "tool", "tool_call_id": call.id, "content": answer}]
ended = agent.chat_completion(messages, tools=tools, max_tokens=500).choices[0].message
assert ended.content == "The command said: safelight", ended
