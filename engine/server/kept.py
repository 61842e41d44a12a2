"""Keeps in memory what a server needs again: recent responses, and pictures that requests show."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from engine.pictures import Picture, open_picture
from engine.server.errors import ApiError, too_many
from engine.trace.format import MAX_PICTURED

Item = dict[str, Any]
MAX_KEPT_BYTES = 32 * 2**20  # of all that is kept, as JSON
MAX_RESPONSES = 1_000  # responses


@dataclass(frozen=True)
class Conversation:
    """The items that led to a response, and the response; ``size`` of both in bytes."""

    items: Sequence[Item]
    size: int
    response: Item = field(default_factory=dict)

    @property
    def output(self) -> Sequence[Item]:
        """The response's own items."""
        items: Sequence[Item] = self.response["output"]
        return items


class KeptResponses:
    """Whole conversations by the ids of their responses; those that were used longest ago are dropped first.

    ``most`` bytes in all. From any thread.
    """

    def __init__(self, most: int = MAX_KEPT_BYTES) -> None:
        self._most, self._size = most, 0
        self._lock = threading.Lock()
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()
        self._items: dict[str, tuple[str, Item]] = {}  # by their ids, with those of their responses

    def open(self, sent: str | Sequence[Item], previous: str | None = None) -> Conversation:
        """Returns the whole conversation of an input, which may go on from a response. Slow if it is large.

        Raises:
            ApiError: a response or an item that is named is not kept.
        """
        sent_items: Sequence[Item] = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
        items = [self._resolved(item, place) for place, item in enumerate(sent_items)]
        if previous is not None:
            items = [*self._before(previous), *items]
        return Conversation(items, _bytes(items))

    def has_room(self, conversation: Conversation) -> bool:
        return conversation.size <= self._most

    def keep(self, conversation: Conversation, response: Item) -> None:
        """Keeps a response with what led to it."""
        kept, name = Conversation(conversation.items, conversation.size + _bytes([response]), response), response["id"]
        with self._lock:
            self._conversations[name] = kept
            self._items |= {item["id"]: (name, item) for item in kept.output}
            self._size += kept.size
            while self._size > self._most or len(self._conversations) > MAX_RESPONSES:
                self._drop(next(iter(self._conversations)))

    def find(self, response: str) -> Item:
        """Returns a response.

        Raises:
            ApiError: it is not kept.
        """
        with self._lock:
            if response not in self._conversations:
                raise _gone()
            return self._conversations[response].response

    def forget(self, response: str) -> None:
        """Drops a response with what led to it.

        Raises:
            ApiError: it is not kept.
        """
        with self._lock:
            if response not in self._conversations:
                raise _gone()
            self._drop(response)

    def _drop(self, response: str) -> None:
        dropped = self._conversations.pop(response)
        self._size -= dropped.size
        for item in dropped.output:
            del self._items[item["id"]]

    def _before(self, response: str) -> Sequence[Item]:
        with self._lock:
            if response not in self._conversations:
                raise _not_kept("response", "previous_response_id", "previous_response_not_found")
            self._conversations.move_to_end(response)
            conversation = self._conversations[response]
            return [*conversation.items, *conversation.output]

    def _resolved(self, item: Item, place: int) -> Item:
        """Returns an item, or the one that it names."""
        if item.get("type") != "item_reference":
            return item
        with self._lock:
            response, named = self._items.get(str(item.get("id")), ("", None))
            if named is None:
                raise _not_kept("item", f"input.{place}.id")
            self._conversations.move_to_end(response)
            return named


_WHY = "is not kept: it is not from this server, was not to be stored, or is too old"


def _gone() -> ApiError:
    return ApiError(404, f"This response {_WHY}.")


def _not_kept(what: str, param: str, code: str | None = None) -> ApiError:
    return ApiError(400, f"This {what} {_WHY}; send it as input.", param=param, code=code)


def _bytes(items: Sequence[Item]) -> int:
    return len(json.dumps(items))


MAX_PICTURES = 4_096  # recently shown pictures


class ServedPictures:
    """The pictures of running requests, and recently shown ones: a conversation's next turn shows them again.

    ``most`` bytes in all.
    """

    def __init__(self, most: int = MAX_PICTURED) -> None:
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

    def open(self, data: bytes) -> Picture:
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
            while self._recent and (len(self._recent) >= MAX_PICTURES or self._size() + len(data) > self._most):
                self._recent.popitem(last=False)
            if self._size() + len(data) > self._most:
                raise too_many("Pictures of other requests use all the memory for pictures; try again later.")
            self._alive[picture.digest] = self._recent[picture.digest] = picture
        return picture

    def _size(self) -> int:
        return sum(len(picture.data) for picture in self._alive.values())
