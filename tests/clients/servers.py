"""The two servers that clients are tried on.

*small* is Safelight Mini with a long context and a template that names tools: real weights, real grammars, brief
answers. *agent* is scripted: it says what stands between « and » in a chat or a prompt; else it calls a tool that runs
commands once, and then says what the tool answered.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.catalog import MINI, resolve
from engine.service import LocalBackend
from tests.engine.server.served import ScriptedEngine, serving

CONTEXT = 65_536  # positions; those of the model end at 512, and its answers stay as brief
COMMANDS = ("bash", "shell", "exec_command", "shell_command", "run_shell_command", "execute_command", "run_command")
COMMAND = "echo safelight > proof.txt && cat proof.txt"
TEMPLATE = """{{ bos_token }}<|turn>user
{% for tool in tools or [] %}{{ tool['function']['name'] }} {% endfor %}{{ messages[-1]['content'] }}<turn|>
{%- if add_generation_prompt %}{{ '
' }}<|turn>model
{% endif %}
"""


class AgentEngine(ScriptedEngine):
    """Says what it is asked to, or calls a tool for commands once and says the word that it answered."""

    def __init__(self) -> None:
        super().__init__()
        self.context = 200_000
        self.name = "agent"

    def decode(self, model: Any, task: Any, cache: Any) -> Iterator[Any]:
        if task.request.kind == "completion":
            self.says = _asked(task.request.text) or "nothing"
        return super().decode(model, task, cache)

    def render(self, messages: Any, tools: Any = (), **options: Any) -> str:
        text = super().render(messages, tools, **options)
        asked = _asked(str(messages[-1]["content"]))
        self.says = asked or "The answer."
        found = _command_tool(tools)
        if messages[-1]["role"] == "tool":
            words = re.findall(r"^(?:Output: )?(\w+)$", str(messages[-1]["content"]).strip(), re.MULTILINE)
            self.says = f"The command said: {words[-1] if words else 'nothing'}"
        elif not asked and found is not None and not any(message["role"] == "tool" for message in messages):
            self.says = f"I run it.<|tool_call>call:{found['name']}{_arguments(found)}<tool_call|>"
        return text


def _asked(text: str) -> str:
    """Returns what stands between the last « and » of a text."""
    return next(reversed(re.findall("«(.*?)»", text, re.DOTALL)), "")


def _command_tool(tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    functions = [tool["function"] for tool in tools]
    return next((one for name in COMMANDS for one in functions if one["name"].lower() == name), None)


def _arguments(function: Mapping[str, Any]) -> str:
    """Returns the required arguments of a call in the model's own format."""
    schema = function.get("parameters") or {}
    properties = schema.get("properties", {})
    found = {}
    for name in dict.fromkeys([*schema.get("required", ()), *(one for one in ("command", "cmd") if one in properties)]):
        kind = properties.get(name, {}).get("type")
        is_command = name in ("command", "cmd", "script")
        if kind == "array":
            found[name] = '[<|"|>bash<|"|>,<|"|>-lc<|"|>,' + f'<|"|>{COMMAND}<|"|>]'
        elif kind in ("boolean", "integer", "number"):
            found[name] = "false" if kind == "boolean" else "1"
        else:
            found[name] = f'<|"|>{COMMAND if is_command else "Shows a file."}<|"|>'
    return "{" + ",".join(f"{name}:{value}" for name, value in found.items()) + "}"


@contextmanager
def small(model: Path) -> Iterator[str]:
    """Serves the small model, of which it makes the folder; yields the address."""
    shutil.copytree(resolve(MINI), model)
    config = json.loads((model / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = CONTEXT
    (model / "config.json").write_text(json.dumps(config))
    (model / "chat_template.jinja").write_text(TEMPLATE)
    with serving(LocalBackend(), str(model)) as served:
        yield served.server.url


@contextmanager
def agent() -> Iterator[str]:
    """Serves the scripted one; yields the address."""
    with serving(AgentEngine(), "agent") as served:
        yield served.server.url
