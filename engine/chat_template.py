"""Messages to the prompt text, by the checkpoint's own Jinja template in a sandbox."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import SafelightError
from engine.files import read_json

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""


class ChatTemplate:
    """A compiled chat template with the special tokens it may name."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise SafelightError(f"the model's chat template is damaged: {error}") from error
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
        try:
            source = path.read_text(encoding="utf-8") if path.exists() else settings.get("chat_template")
        except (OSError, UnicodeDecodeError) as error:
            raise SafelightError(f"{path} cannot be read: {error}") from error
        if not isinstance(source, str):
            raise SafelightError(f"{folder} has no chat template (chat_template.jinja); download the model again")
        tokens = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            token = settings.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                tokens[name] = token
        return ChatTemplate(source, tokens)

    def render(self, messages: Sequence[Message], **options: Any) -> str:
        """The prompt text up to where the model's turn begins.

        Args:
            messages: oldest first.
            options: passed to the template, ``enable_thinking`` for instance.

        Raises:
            SafelightError: the template refuses these messages.
        """
        try:
            return self._template.render(
                messages=[dict(message) for message in messages], add_generation_prompt=True, **self._tokens, **options
            )
        except Exception as error:  # a template may fail in any way
            raise SafelightError(f"the model's chat template refuses this conversation: {error}") from error


def _raise(message: str) -> None:
    raise TemplateError(message)
