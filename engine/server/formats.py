"""The format that an answer must fit, as OpenAI's and vLLM's clients request it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.decoding.names import formatting
from engine.files import parse_json
from engine.server.errors import UNSUPPORTED, ApiError, refusing, unsupported
from engine.server.strict import NeutralFields, Strict
from engine.service import LoadedModel
from engine.text.output_format import FormatKind, OutputFormat


class NamedSchema(Strict):
    """The schema of ``response_format``; every answer fits it, with or without ``strict``."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Strict):
    """OpenAI's ``response_format``, for chats.

    An object's schema may be given in llama.cpp's ``schema``, or in the ``value`` of TGI's clients.
    """

    type: Literal["json_schema", "json_object", "text"]
    json_schema: NamedSchema | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    value: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema is only for the type json_schema")
        if self.type != "json_object" and (self.schema_ is not None or self.value is not None):
            raise ValueError("schema and value are only for the type json_object")
        if self.schema_ is not None and self.value is not None:
            raise ValueError("schema and value are the same; give one")
        return self

    @property
    def schema_of_object(self) -> dict[str, Any] | None:
        """The schema of the type ``json_object``, if one is given."""
        return self.schema_ if self.schema_ is not None else self.value


class StructuredOutputs(Strict):
    """vLLM's ``structured_outputs``: one of these fields."""

    json_: Annotated[str | dict[str, Any] | None, Field(alias="json")] = None
    regex: str | None = None
    choice: list[str] | None = None
    json_object: bool | None = None


class FormattedRequest(NeutralFields):
    """A request whose answer can be held to a format; at most one may be given."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    json_schema: str | dict[str, Any] | None = None  # llama-server's
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None


@dataclass(frozen=True)
class AskedFormat:
    """The format of an answer, and the field of the request that asks for it."""

    format: OutputFormat
    field: str

    def decoded(self, model: LoadedModel, config: GenerationConfig, *, names_decoder: bool) -> GenerationConfig:
        """Returns a request's settings with the decoder that holds the answer to the format.

        Args:
            names_decoder: True if the request names one.

        Raises:
            ApiError: the model's answers cannot be held to a format, or another field contradicts it.
        """
        if not model.capabilities.structured:
            raise unsupported("This model cannot follow a format; describe it in the prompt.", self.field)
        asked = config if names_decoder else config.replace(decoder="")
        with refusing(self.field, UNSUPPORTED):
            decoder = formatting(asked, model.decoders)
        return config.replace(decoder="" if decoder == BLOCK_DIFFUSION else decoder)


def read_format(body: FormattedRequest) -> AskedFormat | None:
    """Returns the requested format.

    Raises:
        ApiError: it is none, or there are several.
    """
    form = body.response_format or ResponseFormat(type="text")
    more = body.structured_outputs or StructuredOutputs()
    asked: tuple[tuple[str, FormatKind, Any], ...] = (
        ("response_format", "json_schema", form.json_schema and form.json_schema.schema_),
        ("response_format", "json_schema", form.schema_of_object),
        ("response_format", "json_object", (form.type == "json_object" and form.schema_of_object is None) or None),
        ("structured_outputs.json", "json_schema", more.json_),
        ("structured_outputs.regex", "regex", more.regex),
        ("structured_outputs.choice", "choices", more.choice),
        ("structured_outputs.json_object", "json_object", more.json_object or None),
        ("json_schema", "json_schema", body.json_schema),
        ("guided_json", "json_schema", body.guided_json),
        ("guided_regex", "regex", body.guided_regex),
        ("guided_choice", "choices", body.guided_choice),
    )
    found = [one for one in asked if one[2] is not None]
    if not found:
        return None
    if len(found) > 1:
        raise contradicting(found[0][0], found[1][0])
    [(field, kind, value)] = found
    with refusing(field):
        return AskedFormat(_made(kind, value), field)


def read_calls(tools: Sequence[Mapping[str, Any]]) -> AskedFormat:
    """Returns the format of at least one call of these tools, given as chat templates take them.

    Raises:
        ApiError: they are too large.
    """
    with refusing("tools"):
        return AskedFormat(OutputFormat("tool_calls", tools=_functions(tools)), "tool_choice")


def may_call(tools: Sequence[Mapping[str, Any]]) -> OutputFormat | None:
    """Returns the format of text, or of calls that fit the schemas of these tools; None if they are too large."""
    return OutputFormat.text_or_calls(_functions(tools))


def _functions(tools: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    functions = [tool["function"] for tool in tools]
    return tuple({"name": one["name"], "parameters": one.get("parameters") or {}} for one in functions)


def contradicting(one: str, other: str) -> ApiError:
    """Returns the error of two fields that cannot both be honoured."""
    return ApiError(400, f"{one} and {other} contradict each other; give one.", param=other)


def _made(kind: FormatKind, value: Any) -> OutputFormat:
    match kind:
        case "json_schema":
            return OutputFormat(kind, parse_json(value, "the schema") if isinstance(value, str) else value)
        case "regex":
            return OutputFormat(kind, pattern=value)
        case "choices":
            return OutputFormat(kind, choices=tuple(value))
    return OutputFormat(kind)
