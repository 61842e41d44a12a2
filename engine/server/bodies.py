"""A request's body, read within bounds of size and time, to a checked object."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from engine.errors import SafelightError, quoted
from engine.files import parse_json
from engine.server.context import ServerContext
from engine.server.errors import ApiError

JSON_VALUES = 100_000
MOST_ERRORS = 50  # of a request that are looked at
MOST_FIELD = 200  # characters of where it is wrong that are said
_PLAIN_FIELD = re.compile(r"[\w.]*")
Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, context: ServerContext, kind: type[Body]) -> Body:
    """
    Raises:
        ApiError: it is not JSON, too large, too slow, or not what ``kind`` says; names the field.
    """
    raw = await read_object(request, context, context.options.body_bytes, JSON_VALUES)
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise in_words(error, raw) from None


async def read_object(request: Request, context: ServerContext, most: int, values: int) -> dict[str, Any]:
    """A JSON object of at most so many bytes and values.

    Raises:
        ApiError: it is none, too large or too slow.
    """
    data = await _read(request, context.options.body_seconds, most)
    try:
        raw = parse_json(data.decode(), "the body", values=values)
    except UnicodeDecodeError as error:
        raise ApiError(400, f"The body is not UTF-8 text (byte {error.start}).", code="invalid_json") from None
    except SafelightError as error:
        raise ApiError(400, f"{error}.", code="invalid_json") from None
    if not isinstance(raw, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    return raw


async def _read(request: Request, seconds: float, most: int) -> bytes:
    headers = request.headers
    close = {"Connection": "close"}  # what is left of the body is not read
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, "Send JSON, with Content-Type: application/json.", headers=close)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "Send the body as it is, without Content-Encoding.", headers=close)
    length = headers.get("content-length")
    if length is None and "transfer-encoding" not in headers:
        raise ApiError(411, "Send a body with its Content-Length.", headers=close)
    too_large = ApiError(413, f"The body is larger than {most:,} bytes, the most that is read.", headers=close)
    if length is not None and (not length.isdecimal() or int(length[:20]) > most):
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, "The body did not arrive in time.", headers=close) from None
    except ClientDisconnect:
        raise ApiError(400, "The client left.", headers=close) from None
    return b"".join(parts)


def in_words(error: ValidationError, raw: dict[str, Any]) -> ApiError:
    """What is wrong, with its field: of several the one that stands deepest, where fields may be of several types."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_ERRORS]
    first = max(found, key=lambda one: len(_place(one["loc"], raw)))
    kind, known = first["type"], _place(first["loc"], raw)
    field = ".".join([*known, str(first["loc"][-1])] if kind == "missing" else known)[:MOST_FIELD]
    if kind == "extra_forbidden":
        return ApiError(
            400,
            f"The field {quoted(field)} is not known to this server; leave it out.",
            param=field,
            code="unknown_field",
        )
    if kind == "missing":
        return ApiError(400, f"The field {quoted(field)} is missing.", param=field, code="missing_required_parameter")
    said = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    where = field if _PLAIN_FIELD.fullmatch(field) else quoted(field)
    return ApiError(400, f"{where or 'The body'}: {said}.", param=field or None, code="invalid_value")


def _place(place: tuple[int | str, ...], raw: Any) -> list[str]:
    """Where it stands in the request, without the names of the types that were tried there."""
    known: list[str] = []
    for part in place:
        with suppress(KeyError, IndexError, TypeError):
            raw = raw[part]
            known.append(str(part))
    return known
