"""Images in requests: ``data:`` URLs to pictures, within bounds. Nothing is fetched, and no file is read."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from engine.config import IMAGE_TOKENS, GenerationConfig
from engine.errors import quoted
from engine.pictures import MOST_BYTES, Picture, open_picture
from engine.server.errors import ApiError, refusing, too_many, unsupported
from engine.service import LoadedModel
from engine.trace.format import MOST_PICTURED

MOST_IMAGES = 32  # of a request
MOST_PIXELS = 2**27  # of a request's images: decoding time grows with them, and few bytes may hold many
MOST_KEPT = 4_096  # recently shown pictures
BUDGETS = {"auto": None, "low": IMAGE_TOKENS[0], "high": IMAGE_TOKENS[-1], "original": IMAGE_TOKENS[-1]}
"""The most tokens of an image by its ``detail``; None: the model's own."""

_HEAD = re.compile(r"data:image/[a-z0-9.+-]{1,64};base64,", re.IGNORECASE)
_MOST_BASE64 = 4 * (MOST_BYTES // 3 + 1)


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
        self._sent: list[SentImage] = []
        self._opened: dict[str, Picture] = {}  # by URL
        self._pixels = 0

    def open(self, sent: SentImage) -> Picture:
        """Opens an image.

        Raises:
            ApiError: the model cannot see, there are too many, or it is no image that is read here, or no room for it.
        """
        if not self._model.capabilities.images:
            said = f"The model {self._model.name} cannot see images; leave them out, or load one that can."
            raise unsupported(said, sent.where)
        if len(self._sent) >= MOST_IMAGES:
            raise ApiError(400, f"There are more than {MOST_IMAGES} images; send fewer.", param=sent.where)
        self._sent.append(sent)
        if sent.url not in self._opened:
            with refusing(sent.where):
                picture = self._pictures.take(_data_of(sent))
            self._pixels += picture.width * picture.height
            if self._pixels > MOST_PIXELS:
                said = f"The images have more than {MOST_PIXELS // 10**6} million pixels; make them smaller."
                raise ApiError(400, said, param=sent.where)
            self._opened[sent.url] = picture
        return self._opened[sent.url]

    @property
    def can_see(self) -> bool:
        """True if the model can see images."""
        return self._model.capabilities.images

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
            wanted = BUDGETS[sent.detail]
            if wanted is not None and asked not in (None, wanted):
                raise unsupported("All images must have the same detail.", sent.where)
            asked = asked or wanted
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
    if len(sent.url) - head.end() > _MOST_BASE64:
        raise ApiError(400, f"The image has more than {MOST_BYTES // 2**20} MiB; make it smaller.", param=sent.where)
    try:
        return base64.b64decode("".join(sent.url[head.end() :].split()), validate=True)  # it may be in lines
    except ValueError:
        raise ApiError(400, "The image's URL is not valid base64.", param=sent.where) from None


class ServedPictures:
    """The pictures of running requests, and recently shown ones: a conversation's next turn shows them again.

    ``most`` bytes in all.
    """

    def __init__(self, most: int = MOST_PICTURED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, Picture] = OrderedDict()
        self._alive: WeakValueDictionary[str, Picture] = WeakValueDictionary()

    def find(self, digest: str) -> Picture | None:
        """Returns the picture of a digest; None if it was not sent, or was dropped."""
        with self._lock:
            picture = self._alive.get(digest)
            if picture is not None:
                self._recent[digest] = picture
                self._recent.move_to_end(digest)
            return picture

    def take(self, data: bytes) -> Picture:
        """Returns the picture of these bytes. Slow: it is decoded, unless it is known.

        Raises:
            SafelightError: it is no picture that is read.
            ApiError: the pictures of running requests leave no room for it.
        """
        known = self.find(hashlib.sha256(data).hexdigest())
        if known is not None:
            return known
        picture = open_picture(data)
        with self._lock:
            if (known := self._alive.get(picture.digest)) is not None:
                return known  # another thread was faster
            while self._recent and (len(self._recent) >= MOST_KEPT or self._size() + len(data) > self._most):
                self._recent.popitem(last=False)
            if self._size() + len(data) > self._most:
                raise too_many("Pictures of other requests use all the memory for pictures; try again later.")
            self._alive[picture.digest] = self._recent[picture.digest] = picture
        return picture

    def _size(self) -> int:
        return sum(len(picture.data) for picture in self._alive.values())
