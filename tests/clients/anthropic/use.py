"""A message, a stream, tools in a loop by its runner, structured output, count_tokens."""

import os
import subprocess

from anthropic import Anthropic, beta_tool
from pydantic import BaseModel

ASKED = [{"role": "user", "content": "Reverse the word robot."}]


class Person(BaseModel):
    name: str
    age: int


@beta_tool
def bash(command: str) -> str:
    """Runs a command.

    Args:
        command: What is run.
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


small = Anthropic(base_url=os.environ["SMALL"], api_key=os.environ["KEY"])
agent = Anthropic(base_url=os.environ["AGENT"], api_key=os.environ["KEY"])

said = small.messages.create(model="small", max_tokens=64, messages=ASKED)
assert (said.content[0].text, said.stop_reason, said.usage.output_tokens) == ("tobor", "end_turn", 5)
counted = small.messages.count_tokens(model="small", messages=ASKED).input_tokens
assert counted == said.usage.input_tokens + (said.usage.cache_read_input_tokens or 0)
with small.messages.stream(model="small", max_tokens=64, messages=ASKED) as stream:
    assert "".join(stream.text_stream) == "tobor"
    assert stream.get_final_message().usage.output_tokens == 5

called = agent.messages.create(
    model="agent", max_tokens=500, tools=[bash.to_dict()], messages=[{"role": "user", "content": "Write the proof."}]
)
assert called.stop_reason == "tool_use"
assert called.content[-1].name == "bash"
runner = agent.beta.messages.tool_runner(
    model="agent", max_tokens=500, tools=[bash], messages=[{"role": "user", "content": "Write the proof."}]
)
assert runner.until_done().content[-1].text == "The command said: safelight"

parsed = small.messages.parse(model="small", max_tokens=500, messages=ASKED, output_format=Person)
assert isinstance(parsed.parsed_output, Person)
