"""Messages to the prompt text, by the checkpoint's own Jinja template in a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import SafelightError
from engine.files import read_json, read_text
from engine.text.message import Message, in_parts
from engine.text.template_budget import TemplateBudget
from engine.text.template_compiling import MOST_SOURCE, compile_template, render
from engine.text.template_values import TemplateValues

STEPS, STEPS_PER_MESSAGE, STEPS_PER_VALUE, STEPS_PER_CHARACTER = 500_000, 3_000, 100, 4
"""What a rendering may take. Published templates take about 150 a message, 60 a value of a tool, and a third of one a
character."""

MOST_VALUES, MOST_CHARACTERS = 500_000, 2**28
"""Of all messages; far more than any context has."""
MOST_TOOL_VALUES, MOST_TOOL_CHARACTERS = 20_000, 2**20
"""Of all tools; those of a hundred tools have a tenth of it."""

LARGEST, LARGEST_PER_CHARACTER = 2**20, 8
"""Items and characters of the largest value that a rendering may make."""


class ChatTemplate:
    """A compiled chat template with the special tokens it may name."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self._template = compile_template(source)
        self._tokens = dict(tokens)

    @staticmethod
    def from_folder(folder: Path) -> ChatTemplate:
        """Read ``chat_template.jinja``, or the template inside ``tokenizer_config.json``.

        Raises:
            SafelightError: there is none, or it is not valid Jinja.
        """
        settings_path = folder / "tokenizer_config.json"
        settings = read_json(settings_path) if settings_path.exists() else {}
        path = folder / "chat_template.jinja"
        source = read_text(path, 4 * MOST_SOURCE) if path.exists() else settings.get("chat_template")
        if isinstance(source, list):  # several, by their names
            named = (one for one in source if isinstance(one, dict) and one.get("name") == "default")
            source = next((one.get("template") for one in named), None)
        if not isinstance(source, str):
            raise SafelightError(f"{folder} has no chat template (chat_template.jinja); download the model again")
        tokens = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            token = settings.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                tokens[name] = token
        return ChatTemplate(source, tokens)

    def render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), **options: Any) -> str:
        """The prompt text up to where the model's turn begins.

        The budget grows with what is handed over; a template that needs more is refused.

        Args:
            messages: oldest first; the template places their images.
            tools: functions that the model may call, as OpenAI describes them.
            options: passed to the template, ``enable_thinking`` for instance.

        Raises:
            SafelightError: the template refuses these messages, or takes too much; or they, or the tools, are out of
                bounds.
        """
        said = TemplateValues("the messages", MOST_VALUES, MOST_CHARACTERS)
        offered = TemplateValues("the tools", MOST_TOOL_VALUES, MOST_TOOL_CHARACTERS)
        values = {"messages": said.copied([in_parts(message) for message in messages]), "add_generation_prompt": True}
        if tools:
            values["tools"] = offered.copied(tools)
        characters = said.characters + offered.characters
        budget = TemplateBudget(
            STEPS
            + STEPS_PER_MESSAGE * len(messages)
            + STEPS_PER_VALUE * (said.values + offered.values)
            + STEPS_PER_CHARACTER * characters,
            LARGEST + LARGEST_PER_CHARACTER * characters,
        )
        return render(self._template, budget, {**values, **self._tokens, **options})
