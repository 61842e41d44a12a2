"""Converts a conversation from clients to messages for the chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import SafelightError, quoted
from engine.files import parse_json
from engine.server.errors import ApiError, unread
from engine.server.images import SentImages, chat_image
from engine.server.schemas import ChatMessage, ToolCallSent
from engine.server.strict import Ignored
from engine.text.message import Message, image_of

UNSEEN = "(An image was left out here: this model cannot see.)"


def read_messages(sent: Sequence[ChatMessage], images: SentImages, ignored: Ignored) -> tuple[Message, ...]:
    """Reads a conversation.

    Images of a tool's result are shown in the user's message behind it. Where the model does not see, a text says that
    they were left out.

    Raises:
        ApiError: a part is no text and no image, or an image is none; or the model does not see a user's.
    """
    found: list[Message] = []
    names: dict[str, str] = {}  # of the functions called, by the call's id
    waiting: list[dict[str, Any]] = []  # images of the last results
    for place, message in enumerate(sent):
        where = f"messages.{place}"
        _check_fields(message, where)
        if waiting and message.role not in ("tool", "user"):
            found.append({"role": "user", "content": "", "images": waiting})
            waiting = []
        read: dict[str, Any] = {
            "role": "system" if message.role == "developer" else message.role,
            **_read_content(message, where, images, ignored),
        }
        if message.role == "tool":
            waiting = waiting + [{**image, "at": 0} for image in read.pop("images", ())]
        elif waiting:
            read["images"], waiting = [*waiting, *read.get("images", ())], []
        if message.tool_calls:
            read["tool_calls"] = [_read_call(call) for call in message.tool_calls]
            names |= {call.id: call.function.name for call in message.tool_calls}
        thought = message.reasoning_content or message.reasoning
        if thought:
            read["reasoning_content"] = thought
        if message.role == "tool":
            call = message.tool_call_id or ""
            read |= {"tool_call_id": call, "name": names.get(call) or message.name or "tool"}  # its call may be cut off
        found.append(read)
    return (*found, {"role": "user", "content": "", "images": waiting}) if waiting else tuple(found)


def read_content(content: str | list[dict[str, Any]] | None, where: str) -> str:
    """Returns the text of a message, its parts joined by line breaks.

    Raises:
        ApiError: a part is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_text(part, f"{where}.content.{place}") for place, part in enumerate(content))


def _read_content(message: ChatMessage, where: str, sent: SentImages, ignored: Ignored) -> dict[str, Any]:
    """Returns a message's content, and its images. A line break joins two texts; nothing joins a text and an image."""
    content = message.content
    if not isinstance(content, list) or not any(part.get("type") == "image_url" for part in content):
        return {"content": read_content(content, where)}
    text, images, follows_text = "", [], False
    for place, part in enumerate(content):
        param = f"{where}.content.{place}"
        is_image = part.get("type") == "image_url"
        if is_image and message.role not in ("user", "tool"):
            raise unread("Only a user's message and a tool's result can have images.", param)
        if is_image and message.role == "tool" and not sent.can_see:
            ignored.add("messages.content.image_url")
            text += "\n" * follows_text + UNSEEN
        elif is_image:
            images.append(image_of(sent.open(chat_image(part, param)), len(text)))
        else:
            text += "\n" * follows_text + _text(part, param)
        follows_text = not is_image or (message.role == "tool" and bool(text))  # its images are shown elsewhere
    return {"content": text, "images": images}


def _text(part: Mapping[str, Any], param: str) -> str:
    kind, text = part.get("type"), part.get("text")
    if kind in ("input_image", "input_audio", "video_url", "file"):
        raise unread("Files are not read; send text, or an image as image_url.", param)
    if kind != "text" or not isinstance(text, str) or part.keys() - {"type", "text"}:
        raise ApiError(400, f"A part of a message must be text or an image, not {quoted(kind)}.", param=param)
    return text


def _check_fields(message: ChatMessage, where: str) -> None:
    if message.role != "assistant":
        for name in ("tool_calls", "reasoning", "reasoning_content", "provider_specific_fields"):
            if getattr(message, name):
                raise ApiError(400, f"Only an assistant's message can have {name}.", param=f"{where}.{name}")
    if message.role != "tool" and message.tool_call_id is not None:
        raise ApiError(400, "Only a tool's message can have a tool_call_id.", param=f"{where}.tool_call_id")
    if message.role not in ("tool", "assistant") and message.name is not None:
        raise ApiError(400, "Names are not shown to the model; put the name into the content.", param=f"{where}.name")
    if message.content is None and message.role != "assistant":
        raise ApiError(400, "The content is missing.", param=f"{where}.content")
    thoughts = {message.reasoning, message.reasoning_content} - {None, ""}
    if len(thoughts) > 1:
        raise ApiError(400, "reasoning and reasoning_content contradict each other.", param=f"{where}.reasoning")


def _read_call(call: ToolCallSent) -> dict[str, Any]:
    """Returns a call for the chat template; arguments that are no JSON object, as a model may write them, as a text."""
    sent = call.function.arguments
    arguments = arguments_in(sent)
    shown = {"arguments": sent} if arguments is None else arguments
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": shown}}


def arguments_in(text: str) -> dict[str, Any] | None:
    """Returns a call's arguments; None if the text is no JSON object, as where it was cut off."""
    try:
        found = parse_json(text or "{}", "the arguments of a call")
    except SafelightError:
        return None
    return found if isinstance(found, dict) else None
