"""The body of ``/v1/responses``, and its conversion to a chat."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from engine.server.bodies import checked
from engine.server.errors import ApiError, unread
from engine.server.messages import input_image
from engine.server.schemas import (
    MAX_MESSAGES,
    MAX_TOOLS,
    AnyLength,
    AnySeed,
    ChatRequest,
    ModelName,
    NamedSchema,
)
from engine.server.strict import RequestBody, Strict, own_tools

_LOGPROBS = "message.output_text.logprobs"
INCLUDED = frozenset(  # values of ``include``: for others than the first, there is nothing to send
    {
        _LOGPROBS,
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "message.input_image.image_url",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
_PARTS = ("input_text", "output_text", "text")
_AS_IN_CHATS = (  # fields that are passed on unchanged
    "model temperature top_p decoder token_thoughts thinking_token_budget seed parallel_tool_calls"
)
_ANNOTATED = {"type", "text", "annotations", "logprobs"}  # an answer's part as clients send it back


class ResponseTool(Strict):
    """A function that the model may call.

    Those of a namespace, as Codex sends the tools of each MCP server, are called by one name; ``own_name`` has none.
    """

    PLACE = "tools."
    type: Literal["function"]
    name: str
    namespace: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @property
    def own_name(self) -> str:
        return self.name if self.namespace is None else self.name.removeprefix(in_namespace(self.namespace, ""))


class ReasoningOptions(Strict):
    """The options of thinking; a thought is sent whole, so no summary of it is made."""

    PLACE = "reasoning."
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: str | None = None
    generate_summary: str | None = None


class NamedFormat(NamedSchema):
    """JSON that fits a schema."""

    type: Literal["json_schema"]


class PlainFormat(Strict):
    """Any JSON object, or free text."""

    type: Literal["json_object", "text"]


class TextOptions(Strict):
    """The format that the text must fit."""

    PLACE = "text."
    format: Annotated[NamedFormat | PlainFormat, Field(discriminator="type")] | None = None


class ResponsesRequest(RequestBody):
    """Body of ``/v1/responses``."""

    PLACE = ""
    input: str | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_MESSAGES)]
    model: ModelName | None = None
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: AnyLength = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    seed: AnySeed = None
    tools: Annotated[list[ResponseTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    previous_response_id: str | None = None
    include: list[str] | None = None
    text: TextOptions | None = None
    top_p: float | None = None
    decoder: str | None = None
    token_thoughts: bool | None = None
    thinking_token_budget: int | None = None
    top_logprobs: int | None = None

    NEUTRAL = {  # noqa: RUF012 - declared a ClassVar in the base class
        "conversation": ((), "go on by previous_response_id, or send the whole conversation as input"),
        "background": ((False,), "wait for the answer, or stream it"),
        "prompt": ((), "put the prompt into input"),
    }
    UNUSED = frozenset(  # the last is of tools that a server runs, which this one does not
        {"stream_options", "user", "safety_identifier", "prompt_cache_key", "max_tool_calls"}
    )
    PASSED_OVER = {"truncation": ("disabled",), "service_tier": ("auto", "default")}  # noqa: RUF012 - as above

    @field_validator("tools", mode="before")
    @classmethod
    def _drop_tools_of_others(cls, tools: Any, info: ValidationInfo) -> Any:
        """Takes tools out of their namespaces; passes over those that only OpenAI has, such as its search."""
        return own_tools(_without_namespaces(tools), info, lambda tool: tool["type"] == "function")

    @property
    def functions(self) -> list[ResponseTool]:
        return self.tools or []


def in_namespace(namespace: str, name: str) -> str:
    """Returns the name by which the model calls a tool of a namespace."""
    return f"{namespace}{name}" if namespace.endswith(("_", ".", "/", "-")) else f"{namespace}__{name}"


def _without_namespaces(tools: Any) -> Any:
    """Returns tools, with those of namespaces in the place of these; what is malformed stays, to be refused."""
    flat = list[Any]()
    for tool in tools if isinstance(tools, list) else ():
        inner = tool.get("tools") if isinstance(tool, dict) and tool.get("type") == "namespace" else None
        name = tool.get("name") if inner is not None else None
        if not isinstance(name, str) or not isinstance(inner, list) or not all(map(_is_function, inner)):
            flat.append(tool)
            continue
        flat += [{**one, "name": in_namespace(name, one["name"]), "namespace": name} for one in inner]
    return flat if isinstance(tools, list) else tools


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "function" and isinstance(tool.get("name"), str)


def chat_of(body: ResponsesRequest) -> ChatRequest:
    """Converts a request to a chat.

    Raises:
        ApiError: an item of the input is not one that the model can be shown.
    """
    asked: dict[str, Any] = {name: getattr(body, name) for name in _AS_IN_CHATS.split()} | {
        "messages": _messages(body),
        "max_completion_tokens": body.max_output_tokens,
        "tools": [
            {"type": "function", "function": tool.model_dump(exclude={"type", "namespace"}, exclude_none=True)}
            for tool in body.functions
        ]
        or None,
        "tool_choice": _tool_choice(body.tool_choice),
        "response_format": _format(body.text),
        "reasoning_effort": body.reasoning.effort if body.reasoning is not None else None,
    }
    if body.top_logprobs is not None or _LOGPROBS in (body.include or ()):
        asked |= {"logprobs": True, "top_logprobs": body.top_logprobs or 0}
    if set(body.include or ()) - INCLUDED:
        body.ignored.add("include")
    if body.reasoning is not None and (body.reasoning.summary or body.reasoning.generate_summary):
        body.ignored.add("reasoning.summary")  # a thought is sent whole
    try:
        return checked(ChatRequest, asked, body.ignored)
    except ApiError as error:
        raise renamed(error) from None


def renamed(error: ApiError, body: ResponsesRequest | None = None, chat: ChatRequest | None = None) -> ApiError:
    """Renames the field of a chat's refusal to the one used here; with both, parts of the input by their places."""
    if error.param is not None:
        head, dot, rest = error.param.partition(".")
        names = {
            "messages": "input",
            "max_completion_tokens": "max_output_tokens",
            "max_tokens": "max_output_tokens",
            "reasoning_effort": "reasoning.effort",
            "response_format": "text.format",
        }
        for chats, ours in (("max_tokens", "max_output_tokens"), ("response_format", "text.format")):
            error.message = error.message.replace(chats, ours)
        name = names.get(head, head)
        if name == "input":  # messages and items are numbered differently
            error.param = _part_field(rest, body, chat) if body and chat and ".content." in rest else name
        else:
            error.param = f"{name}{dot}{rest}"
    return error


def _part_field(rest: str, body: ResponsesRequest, chat: ChatRequest) -> str:
    """Returns the place of a part of a user's message in the input; each of those is one item there."""
    number, _, part = rest.partition(".")
    roles = [message.role for message in chat.messages[: int(number) + 1]]
    items = [place for place, item in enumerate(body.input) if isinstance(item, dict) and item.get("role") == "user"]
    return f"input.{items[roles.count('user') - 1]}.{part}" if roles[-1] == "user" else "input"


def _format(text: TextOptions | None) -> dict[str, Any] | None:
    """Returns the format in the form of a chat."""
    match text:
        case TextOptions(format=NamedFormat() as named):
            return {"type": "json_schema", "json_schema": named.model_dump(by_alias=True, exclude={"type"})}
        case TextOptions(format=PlainFormat() as other):
            return other.model_dump()
    return None


def _tool_choice(choice: Any) -> Any:
    """Returns the choice in the form of a chat, which names a function one object deeper."""
    if isinstance(choice, dict) and choice.keys() == {"type", "name"}:
        return {"type": choice["type"], "function": {"name": choice["name"]}}
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools" and isinstance(choice.get("tools"), list):
        tools = [_tool_choice(tool) for tool in choice["tools"]]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.get("mode"), "tools": tools}}
    return choice


def _messages(body: ResponsesRequest) -> list[dict[str, Any]]:
    """Returns messages in order.

    Everything that the model wrote in one turn, thought, text and calls, is one message.
    """
    messages: list[dict[str, Any]] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        return [*messages, {"role": "user", "content": body.input}]
    for place, item in enumerate(body.input):
        where = f"input.{place}"
        match item.get("type", "message"):
            case "message":
                for name in item.keys() - {"type", "role", "content", "id", "status", "phase"}:
                    body.ignored.add(f"input.{name}")
                message = {"role": text_of(item, "role", where), "content": _shown(item.get("content"), where)}
            case "function_call":
                message = _call(item, where)
            case "function_call_output":
                call = text_of(item, "call_id", where)
                message = {"role": "tool", "tool_call_id": call, "content": _shown(item.get("output"), where)}
            case "reasoning":
                thought = _content(item.get("content") or item.get("summary") or "", where, "reasoning_text")
                message = {"role": "assistant", "reasoning_content": thought}
            case kind:
                raise ApiError(400, f"An item of type {str(kind)[:60]!r} is not supported.", param=f"{where}.type")
        last = messages[-1] if messages else None
        if message["role"] == "assistant" and last is not None and _goes_on(last, message):
            last |= {**message, "tool_calls": [*last.get("tool_calls", ()), *message.get("tool_calls", ())] or None}
        else:
            messages.append(message)
    return messages


def _goes_on(last: dict[str, Any], message: dict[str, Any]) -> bool:
    """Returns True if the model wrote both in one turn."""
    if last["role"] != "assistant":
        return False
    if "tool_calls" in message:
        return True
    return not last.get("tool_calls") and not (message.keys() & last.keys() - {"role"})


def _shown(content: Any, where: str) -> str | list[dict[str, Any]]:
    """Returns a message's content in the form of a chat: in parts if there are images."""
    parts = content if isinstance(content, list) else ()
    if not any(_is_image(part) for part in parts):
        return _content(content, where)
    shown: list[dict[str, Any]] = []
    for place, part in enumerate(parts):
        param = f"{where}.content.{place}"
        if _is_image(part):
            sent = input_image(part, param)
            shown.append({"type": "image_url", "image_url": {"url": sent.url, "detail": sent.detail}})
        else:
            shown.append({"type": "text", "text": _part_text(part, param)})
    return shown


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_image"


def _call(item: dict[str, Any], where: str) -> dict[str, Any]:
    name = text_of(item, "name", where)
    if item.get("namespace") is not None:
        name = in_namespace(text_of(item, "namespace", where), name)
    function = {"name": name, "arguments": text_of(item, "arguments", where)}
    call = {"id": text_of(item, "call_id", where), "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call]}


def text_of(item: dict[str, Any], name: str, where: str) -> str:
    """Returns a text of an item of the input.

    Raises:
        ApiError: it is none.
    """
    value = item.get(name)
    if not isinstance(value, str):
        raise ApiError(400, f"{name} must be a text.", param=f"{where}.{name}")
    return value


def _content(content: Any, where: str, other: str = "input_text") -> str:
    """Returns the text of a content that is one, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ApiError(400, "The content must be a text, or a list of parts.", param=f"{where}.content")
    return "\n".join(_part_text(part, f"{where}.content.{place}", other) for place, part in enumerate(content))


def _part_text(part: Any, param: str, other: str = "input_text") -> str:
    kinds = (*_PARTS, other, "summary_text")
    text = part.get("text") if isinstance(part, dict) and part.get("type") in kinds else None
    if not isinstance(text, str) or part.keys() - _ANNOTATED:
        raise unread("This content is not supported; send text, or an image in a user's message.", param)
    return text
