"""The format that an answer must fit: a JSON schema, any JSON object, a regular expression, choices, calls of tools."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.errors import SafelightError

FormatKind = Literal["json_schema", "json_object", "regex", "choices", "tool_calls", "text_or_calls"]
MAX_SCHEMA = 64 * 2**10  # characters of a schema's JSON, and of all tools'
MAX_PATTERN = 4_096  # characters of a regular expression
MAX_CHOICES, MAX_CHOICE = 1_000, 1_000  # texts, and characters of one


@dataclass(frozen=True)
class OutputFormat:
    """The format of an answer, as plain data. It is not checked here that a grammar can be made of it.

    Args:
        schema: of json_schema. pattern: of regex, which the whole answer matches. choices: the texts to choose from.
        tools: each with ``name`` and ``parameters``, a JSON schema. tool_calls calls at least one. text_or_calls is any
            text up to the first call, and from there on calls alone.

    Raises:
        SafelightError: a part that its kind needs is missing or too large.
    """

    kind: FormatKind
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    pattern: str = ""
    choices: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        match self.kind:
            case "json_schema":
                if not isinstance(self.schema, Mapping):
                    raise SafelightError("a json_schema needs its schema, an object")
                _check_size("the schema", self.schema)
            case "regex":
                if not 1 <= len(self.pattern) <= MAX_PATTERN:
                    raise SafelightError(f"a regular expression must have 1 to {MAX_PATTERN} characters")
                check_unicode("a regular expression", self.pattern)
            case "choices":
                if not 1 <= len(self.choices) <= MAX_CHOICES:
                    raise SafelightError(f"give 1 to {MAX_CHOICES} choices, not {len(self.choices)}")
                if not all(1 <= len(choice) <= MAX_CHOICE for choice in self.choices):
                    raise SafelightError(f"each choice must have 1 to {MAX_CHOICE} characters")
                check_unicode("a choice", "".join(self.choices))
            case "tool_calls" | "text_or_calls":
                if not self.tools:
                    raise SafelightError("tool calls need at least one tool")
                _check_size("the tools", list(self.tools))

    @staticmethod
    def text_or_calls(tools: Sequence[Mapping[str, Any]]) -> OutputFormat | None:
        """Returns the format of text, or of calls of these tools; None if there are none, or too large ones."""
        with contextlib.suppress(SafelightError):
            return OutputFormat("text_or_calls", tools=tuple(tools))
        return None

    @property
    def is_json(self) -> bool:
        return self.kind in ("json_schema", "json_object")

    @property
    def may_be_text(self) -> bool:
        return self.kind == "text_or_calls"


def check_unicode(what: str, text: str) -> None:
    """Checks that a text has no lone surrogates.

    Raises:
        SafelightError: a text has half a character, which no model can write.
    """
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise SafelightError(f"{what} has half a character (a lone surrogate); take it out")


def _check_size(what: str, value: Any) -> None:
    try:
        size = len(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        raise SafelightError(f"{what} must be JSON") from None
    if size > MAX_SCHEMA:
        raise SafelightError(f"{what} take {size} characters as JSON; at most {MAX_SCHEMA} are taken")
