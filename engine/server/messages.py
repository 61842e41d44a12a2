"""Converts a conversation from clients to messages for the chat template.

Images come as ``data:`` URLs, within bounds. Nothing is fetched, and no file is read.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import IMAGE_TOKENS, GenerationConfig
from engine.errors import SafelightError, quoted
from engine.files import parse_json
from engine.pictures import MAX_BYTES, Picture
from engine.server.errors import ApiError, refusing, unread, unsupported
from engine.server.kept import ServedPictures
from engine.server.schemas import ChatMessage, ToolCallSent
from engine.server.strict import Ignored
from engine.service import LoadedModel
from engine.text.message import Message, image_of

MAX_IMAGES = 32  # of a request
MAX_PIXELS = 2**27  # of a request's images: decoding time grows with them, and few bytes may hold many
BUDGETS = {"auto": None, "low": IMAGE_TOKENS[0], "high": IMAGE_TOKENS[-1], "original": IMAGE_TOKENS[-1]}
"""The most tokens of an image by its ``detail``; None: the model's own."""

_HEAD = re.compile(r"data:image/[a-z0-9.+-]{1,64};base64,", re.IGNORECASE)
_MAX_BASE64 = 4 * (MAX_BYTES // 3 + 1)


UNSEEN = "(An image was left out here: this model cannot see.)"


@dataclass(frozen=True)
class SentImage:
    """An image as it was sent; ``where`` is its place in the request."""

    url: str
    where: str
    detail: str = "auto"


def chat_image(part: Mapping[str, Any], where: str) -> SentImage:
    """Returns the image of a part of type ``image_url``, as in chats.

    Raises:
        ApiError: it has other fields, or other values.
    """
    inner = part.get("image_url")
    if not isinstance(inner, dict) or part.keys() != {"type", "image_url"}:
        raise ApiError(
            400,
            'An image is sent as {"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}.',
            param=where,
        )
    return _sent(inner, "url", where)


def input_image(part: Mapping[str, Any], where: str) -> SentImage:
    """Returns the image of a part of type ``input_image``, as in responses and decisions; raises as ``chat_image``."""
    return _sent({name: value for name, value in part.items() if name != "type"}, "image_url", where)


class SentImages:
    """Opens the images of one request. Slow: each is decoded, unless it was shown recently."""

    def __init__(self, model: LoadedModel, pictures: ServedPictures) -> None:
        self._model, self._pictures = model, pictures
        self.can_see = model.capabilities.images
        self._sent: list[SentImage] = []
        self._opened: dict[str, Picture] = {}  # by URL
        self._pixels = 0

    def open(self, sent: SentImage) -> Picture:
        """Opens an image.

        Raises:
            ApiError: the model cannot see, there are too many, or it is no image that is read here, or no room for it.
        """
        if not self.can_see:
            said = f"The model {self._model.name} cannot see images; leave them out, or load one that can."
            raise unsupported(said, sent.where)
        if len(self._sent) >= MAX_IMAGES:
            raise ApiError(400, f"There are more than {MAX_IMAGES} images; send fewer.", param=sent.where)
        self._sent.append(sent)
        if sent.url not in self._opened:
            with refusing(sent.where):
                picture = self._pictures.open(_data_of(sent))
            self._pixels += picture.width * picture.height
            if self._pixels > MAX_PIXELS:
                said = f"The images have more than {MAX_PIXELS // 10**6} million pixels; make them smaller."
                raise ApiError(400, said, param=sent.where)
            self._opened[sent.url] = picture
        return self._opened[sent.url]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The opened pictures, each once."""
        return tuple({picture.digest: picture for picture in self._opened.values()}.values())

    def budget(self, config: GenerationConfig) -> GenerationConfig:
        """Returns the settings with an image's budget by the images' details.

        Raises:
            ApiError: two are requested; there is one for all images.
        """
        asked: int | None = None
        for sent in self._sent:
            tokens = BUDGETS[sent.detail]
            if tokens is not None and asked not in (None, tokens):
                raise unsupported("All images must have the same detail.", sent.where)
            asked = asked or tokens
        return config if asked is None else config.replace(image_tokens=asked)


def _sent(fields: Mapping[str, Any], name: str, where: str) -> SentImage:
    """Returns the image of an object with the URL under this name."""
    known = {name: value for name, value in fields.items() if value is not None}
    for other in known.keys() - {name, "detail"}:
        said = f"The field {quoted(other)} of an image is not known; send the image as {name}, a data: URL."
        raise unsupported(said, where)
    url, detail = known.get(name), known.get("detail", "auto")
    if not isinstance(url, str):
        raise ApiError(400, f"The image has no {name}; send it as data:image/png;base64,….", param=where)
    if not isinstance(detail, str) or detail not in BUDGETS:
        raise ApiError(400, f"detail is {', '.join(BUDGETS)}, not {quoted(detail)}.", param=where)
    return SentImage(url, where, detail)


def _data_of(sent: SentImage) -> bytes:
    head = _HEAD.match(sent.url)
    if head is None:
        raise unsupported(
            "Send the image itself, as data:image/png;base64,…: this server fetches nothing and reads no files.",
            sent.where,
        )
    if len(sent.url) - head.end() > _MAX_BASE64:
        raise ApiError(400, f"The image has more than {MAX_BYTES // 2**20} MiB; make it smaller.", param=sent.where)
    try:
        return base64.b64decode("".join(sent.url[head.end() :].split()), validate=True)  # it may be in lines
    except ValueError:
        raise ApiError(400, "The image's URL is not valid base64.", param=sent.where) from None


def read_messages(sent: Sequence[ChatMessage], images: SentImages, ignored: Ignored) -> tuple[Message, ...]:
    """Reads a conversation.

    Images of a tool's result are shown in the user's message behind it. Where the model does not see, a text says that
    they were left out.

    Raises:
        ApiError: a part is no text and no image, or an image is none; or the model does not see a user's.
    """
    messages: list[Message] = []
    names: dict[str, str] = {}  # of the functions called, by the call's id
    waiting: list[dict[str, Any]] = []  # images of the last results
    for place, message in enumerate(sent):
        where = f"messages.{place}"
        _check_fields(message, where)
        if waiting and message.role not in ("tool", "user"):
            messages.append({"role": "user", "content": "", "images": waiting})
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
        messages.append(read)
    return (*messages, {"role": "user", "content": "", "images": waiting}) if waiting else tuple(messages)


def _read_content(message: ChatMessage, where: str, sent: SentImages, ignored: Ignored) -> dict[str, Any]:
    """Returns a message's content, and its images. A line break joins two texts; nothing joins a text and an image."""
    content = message.content
    if not isinstance(content, list):
        return {"content": content or ""}
    text, images, follows_text = "", list[dict[str, Any]](), False
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
    return {"content": text} | ({"images": images} if images else {})


def _text(part: Mapping[str, Any], param: str) -> str:
    kind, text = part.get("type"), part.get("text")
    if kind in ("input_image", "input_audio", "video_url", "file"):
        raise unread("Files are not read; send text, or an image as image_url.", param)
    if kind != "text" or not isinstance(text, str) or part.keys() - {"type", "text"}:
        raise ApiError(400, f"A part of a message must be text or an image, not {quoted(kind)}.", param=param)
    return text


def _check_fields(message: ChatMessage, where: str) -> None:
    if message.role != "assistant":
        for name in ("tool_calls", "reasoning", "reasoning_content"):
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
        arguments = parse_json(text or "{}", "the arguments of a call")
    except SafelightError:
        return None
    return arguments if isinstance(arguments, dict) else None
