"""The common base of all bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator

from engine.server.errors import unsupported


class Strict(BaseModel):
    """A strict body: no conversion, no unknown fields. Null counts as not set, as clients use it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        return {name: value for name, value in raw.items() if value is not None or name in cls.model_fields}


class NeutralFields(Strict):
    """A request with fields that are accepted only at values that change nothing.

    ``NEUTRAL`` lists them with those values, and a hint for clients.
    """

    NEUTRAL: ClassVar[dict[str, tuple[tuple[Any, ...], str]]] = {}

    @model_validator(mode="after")
    def _check_neutral(self) -> Self:
        check_neutral(self, self.NEUTRAL)
        return self


def check_neutral(body: Strict, fields: Mapping[str, tuple[tuple[Any, ...], str]]) -> None:
    """Checks that fields are left at a value that changes nothing.

    Args:
        fields: names with those values, and a hint for clients.

    Raises:
        ApiError: one is not.
    """
    for name, (values, instead) in fields.items():
        value = getattr(body, name)
        if value is not None and value not in values:
            raise unsupported(f"{name} only takes its neutral value: {instead}.", name)
