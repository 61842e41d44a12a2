"""The common base of all bodies of requests, and the fields that are passed over in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, PrivateAttr, ValidationInfo, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from engine.server.errors import ApiError, unsupported

Neutral = dict[str, tuple[tuple[Any, ...], str]]
"""Fields with the values that change nothing, and a hint for clients."""

MOST_NAMED = 20  # fields that are passed over and named
_ODD = re.compile(r"[^A-Za-z0-9_.\-]")


class Ignored:
    """The names of a request's fields that are passed over; a strict server passes over none."""

    def __init__(self, *, is_strict: bool = True) -> None:
        self.is_strict = is_strict
        self._names: dict[str, None] = {}  # in order

    def add(self, name: str) -> None:
        """Adds a field's name, which may come from outside."""
        if len(self._names) < MOST_NAMED:
            self._names[_ODD.sub("?", name[:60]) or "?"] = None

    def pass_over(self, name: str, refusal: ApiError) -> None:
        """Adds a field's name, or refuses it in a strict server.

        Raises:
            ApiError: the server is strict.
        """
        if self.is_strict:
            raise refusal
        self.add(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)


class Strict(BaseModel):
    """A strict body: no conversion, no unknown fields. Null counts as not set, as clients use it.

    ``PLACE`` is the beginning of the names of unknown fields that are passed over; None: they are refused.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    PLACE: ClassVar[str | None] = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler.resolve_ref_schema(handler(core))
        if cls.PLACE is not None:
            found["additionalProperties"] = True
        return found

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, raw: Any, info: ValidationInfo) -> Any:
        if not isinstance(raw, dict):
            return raw
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        ignored = ignored_in(info)
        found = {}
        for name, value in raw.items():
            if name in fields:
                found[name] = value
            elif value is None:
                continue
            elif cls.PLACE is None or ignored.is_strict:
                found[name] = value  # which is refused
            else:
                ignored.add(cls.PLACE + name)
        return found


class NeutralFields(Strict):
    """A request with fields that change nothing at some values, and cannot be honoured at others.

    At others those in ``NEUTRAL`` are refused, and those in ``PASSED_OVER`` are left out, except by a strict server.
    """

    NEUTRAL: ClassVar[Neutral] = {}
    PASSED_OVER: ClassVar[Neutral] = {}
    _ignored: Ignored = PrivateAttr(default_factory=Ignored)

    @model_validator(mode="after")
    def _check_neutral(self, info: ValidationInfo) -> Self:
        self._ignored = ignored_in(info)
        for name, (_, instead) in _others(self, self.NEUTRAL).items():
            raise _refusal(name, instead)
        self.pass_over(self.PASSED_OVER)
        return self

    @property
    def ignored(self) -> Ignored:
        """The fields that are passed over in this request."""
        return self._ignored

    def pass_over(self, fields: Neutral) -> None:
        """Leaves out fields that cannot be honoured.

        Raises:
            ApiError: the server is strict.
        """
        for name, (_, instead) in _others(self, fields).items():
            self._ignored.pass_over(name, _refusal(name, instead))
            setattr(self, name, None)


def ignored_in(info: ValidationInfo) -> Ignored:
    """Returns the fields that are passed over in the request that is being checked."""
    return info.context if isinstance(info.context, Ignored) else Ignored()


def own_tools(tools: Any, info: ValidationInfo, is_own: Callable[[dict[str, Any]], bool]) -> Any:
    """Returns the tools of a body without those that only the service's owner can run, which are passed over."""
    ignored = ignored_in(info)
    if ignored.is_strict or not isinstance(tools, list):
        return tools
    kept = []
    for tool in tools:
        if isinstance(tool, dict) and isinstance(tool.get("type"), str) and not is_own(tool):
            ignored.add(f"tools.{tool['type']}")
        else:
            kept.append(tool)
    return kept


def _refusal(name: str, instead: str) -> ApiError:
    return unsupported(f"{name} only takes its neutral value: {instead}.", name)


def _others(body: Strict, fields: Neutral) -> Neutral:
    """Returns those of the fields that are not at a value that changes nothing."""
    values = {name: getattr(body, name) for name in fields}
    return {name: fields[name] for name, value in values.items() if value is not None and value not in fields[name][0]}
