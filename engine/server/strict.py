"""The common base of all bodies of requests, and the fields that are passed over in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationInfo, model_validator

from engine.server.errors import unsupported

Neutral = dict[str, tuple[tuple[Any, ...], str]]
"""Fields with the values that change nothing, and a hint for clients."""
PassedOver = dict[str, tuple[Any, ...]]
"""Fields with the values that change nothing; at others they are left out."""

MAX_NAMED = 20  # fields that are passed over and named
_ODD = re.compile(r"[^A-Za-z0-9_.\-]")


class Ignored:
    """The names of a request's fields that are passed over."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}  # in order

    def add(self, name: str) -> None:
        """Adds a field's name, which may come from outside."""
        if len(self._names) < MAX_NAMED:
            self._names[_ODD.sub("?", name[:60]) or "?"] = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)


class Strict(BaseModel):
    """A strict body: no conversion, no unknown fields. Null counts as not set, as clients use it.

    ``PLACE`` is the beginning of the names of unknown fields that are passed over; None: they are refused. Fields in
    ``UNUSED`` change nothing at any value. Those in ``NEUTRAL`` and ``PASSED_OVER`` change nothing at some; at others
    the former are refused, and the latter are left out and named.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    PLACE: ClassVar[str | None] = None
    UNUSED: ClassVar[frozenset[str]] = frozenset()
    NEUTRAL: ClassVar[Neutral] = {}
    PASSED_OVER: ClassVar[PassedOver] = {}

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, raw: Any, info: ValidationInfo) -> Any:
        if not isinstance(raw, dict):
            return raw
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        kept = {}
        for name, value in raw.items():
            if name in fields:
                kept[name] = value
            elif value is None or name in cls.UNUSED or value in cls.PASSED_OVER.get(name, ()):
                continue
            elif name in cls.NEUTRAL:
                neutral, instead = cls.NEUTRAL[name]
                if value not in neutral:
                    raise unsupported(f"{name} only takes its neutral value: {instead}.", (cls.PLACE or "") + name)
            elif cls.PLACE is None:
                kept[name] = value  # which is refused
            else:
                ignored_in(info).add(cls.PLACE + name)
        return kept


class RequestBody(Strict):
    """The whole body of a request, with the fields that are passed over in it."""

    _ignored: Ignored = PrivateAttr(default_factory=Ignored)

    @model_validator(mode="after")
    def _keep_ignored(self, info: ValidationInfo) -> Self:
        self._ignored = ignored_in(info)
        return self

    @property
    def ignored(self) -> Ignored:
        """The fields that are passed over in this request."""
        return self._ignored


def ignored_in(info: ValidationInfo) -> Ignored:
    """Returns the fields that are passed over in the request that is being checked."""
    return info.context if isinstance(info.context, Ignored) else Ignored()


def own_tools(tools: Any, info: ValidationInfo, is_own: Callable[[dict[str, Any]], bool]) -> Any:
    """Returns the tools of a body without those that only the service's owner can run, which are passed over."""
    if not isinstance(tools, list):
        return tools
    kept, ignored = [], ignored_in(info)
    for tool in tools:
        if isinstance(tool, dict) and isinstance(tool.get("type"), str) and not is_own(tool):
            ignored.add(f"tools.{tool['type']}")
        else:
            kept.append(tool)
    return kept
