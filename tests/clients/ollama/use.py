"""Chat, a stream, generate, a gap, tools in a loop, structured output, list, show."""

import os
import subprocess

from ollama import Client
from pydantic import BaseModel

ASKED = [{"role": "user", "content": "Reverse the word robot."}]


class Person(BaseModel):
    name: str
    age: int


def bash(command: str) -> str:
    """Runs a command.

    Args:
        command: What is run.
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


headers = {"Authorization": f"Bearer {os.environ['KEY']}"}
small = Client(host=os.environ["SMALL"], headers=headers)
agent = Client(host=os.environ["AGENT"], headers=headers)
assert next(model.model for model in small.list().models).startswith("small")
assert small.show("small").capabilities

said = small.chat("small", ASKED)
assert (said.message.content, said.done, said.done_reason, said.eval_count) == ("tobor", True, "stop", 5)
parts = list(small.chat("small", ASKED, stream=True))
assert "".join(part.message.content or "" for part in parts) == "tobor"
assert parts[-1].done
assert small.generate("small", "Reverse the word robot.").response == "tobor"
assert agent.generate("agent", "# Say «number / 2».\nreturn ", suffix="\n\nprint(half(4))").response == "number / 2"
assert "insert" in small.show("small").capabilities
formed = small.chat("small", ASKED, format=Person.model_json_schema(), options={"num_predict": 500, "seed": 1})
Person.model_validate_json(formed.message.content)

messages = [{"role": "user", "content": "Write the proof."}]
called = agent.chat("agent", messages, tools=[bash]).message
(call,) = called.tool_calls
assert call.function.name == "bash"
messages += [called, {"role": "tool", "tool_name": "bash", "content": bash(**call.function.arguments)}]
assert agent.chat("agent", messages, tools=[bash]).message.content == "The command said: safelight"
