"""Reads a request's body, within bounds of size and time, to a checked object."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from engine.errors import quoted
from engine.files import parse_json
from engine.server.context import ServerContext
from engine.server.errors import ApiError, refusing, too_many

JSON, FILE = "application/json", "application/octet-stream"
ANY_TYPE = "/api/"  # beginning of the paths of bodies that are JSON whatever type they say, as Ollama takes them
JSON_VALUES = 100_000
SLOWEST = 2**20  # bytes a second: larger bodies have more time than ``body_seconds``
CLOSE = {"Connection": "close"}  # the rest of the body is not read
MAX_ERRORS = 50  # of a request that are examined
MAX_FIELD = 200  # characters of the reported place
_PLAIN_FIELD = re.compile(r"[\w.]*")
Body = TypeVar("Body", bound=BaseModel)
TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "none_required": "null",
}
"""What a value must be, by pydantic's names for errors."""
BOUNDS = {
    "literal_error": "must be {expected}",
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "string_pattern_mismatch": "has signs that are not taken",
    "finite_number": "must be a finite number",
    "union_tag_invalid": "its type must be {expected_tags}",
    "union_tag_not_found": "its type is missing",
}
NOT_TAKEN = "has a value that is not taken"


async def read_body(request: Request, context: ServerContext, kind: type[Body]) -> Body:
    """Reads a body.

    Raises:
        ApiError: it is not JSON, too large, too slow, or not what ``kind`` requires; names the field.
    """
    raw = await read_object(request, context, context.options.body_bytes, JSON_VALUES)
    return checked(kind, raw, request.state.ignored)


@asynccontextmanager
async def large_body(request: Request, context: ServerContext, kind: type[Body]) -> AsyncIterator[Body]:
    """Reads a body that may hold images as text, as ``read_body``.

    A few large ones are held at a time, until this ends.

    Each takes several times its bytes before its images are pictures.
    """
    async with AsyncExitStack() as room:
        data = await _read(request, context, context.options.image_body_bytes, room=room)

        def parse() -> Body:
            return checked(kind, _parsed(data, JSON_VALUES), request.state.ignored)

        yield await asyncio.to_thread(parse) if len(data) > context.options.body_bytes else parse()


async def read_object(request: Request, context: ServerContext, most: int, values: int) -> dict[str, Any]:
    """Reads a JSON object of at most so many bytes and values.

    Raises:
        ApiError: it is none, too large or too slow.
    """
    return _parsed(await _read(request, context, most), values)


async def read_json(request: Request, context: ServerContext) -> bytes:
    """Reads the body of a JSON object; returns it as it was sent. Raises as ``read_object``."""
    data = await _read(request, context, context.options.body_bytes)
    _parsed(data, JSON_VALUES)
    return data


@asynccontextmanager
async def read_file(request: Request, context: ServerContext, most: int) -> AsyncIterator[bytes]:
    """Reads a body that is a file; held as in ``large_body``, and raises as ``read_object``."""
    async with AsyncExitStack() as room:
        yield await _read(request, context, most, kind=FILE, room=room)


async def _wait_for_room(context: ServerContext, room: AsyncExitStack, size: int) -> None:
    """Waits for room for a body of at most so many bytes; small ones need none.

    Raises:
        ApiError: others take all of it for too long.
    """
    if size <= context.options.body_bytes:
        return
    try:
        async with asyncio.timeout(context.options.body_seconds):
            await room.enter_async_context(context.large_bodies)
    except TimeoutError:
        error = too_many("Too many large requests are being read; send this one again in a moment.")
        error.headers |= CLOSE
        raise error from None


def checked(kind: type[Body], raw: dict[str, Any], ignored: Any = None) -> Body:
    """Returns the body of an object.

    Raises:
        ApiError: it is not what ``kind`` requires; names the field.
    """
    try:
        return kind.model_validate(raw, context=ignored)
    except ValidationError as error:
        raise in_words(error, raw) from None


def _parsed(data: bytes, values: int) -> dict[str, Any]:
    try:
        with refusing(code="invalid_json"):
            raw = parse_json(data.decode(), "the body", values=values)
    except UnicodeDecodeError as error:
        raise ApiError(400, f"The body is not UTF-8 text (byte {error.start}).", code="invalid_json") from None
    if not isinstance(raw, dict):
        raise ApiError(400, "The body must be a JSON object.", code="invalid_json")
    return raw


async def _read(
    request: Request, context: ServerContext, most: int, *, kind: str = JSON, room: AsyncExitStack | None = None
) -> bytes:
    headers = request.headers
    is_named = headers.get("content-type", "").partition(";")[0].strip().lower() == kind
    if not is_named and not request.url.path.startswith(ANY_TYPE):
        what = "JSON" if kind == JSON else "a file's bytes"
        raise ApiError(415, f"Send {what}, with Content-Type: {kind}.", headers=CLOSE)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "Send the body as it is, without Content-Encoding.", headers=CLOSE)
    length = headers.get("content-length")
    if length is None and "transfer-encoding" not in headers:
        raise ApiError(411, "Send a body with its Content-Length.", headers=CLOSE)
    too_large = ApiError(413, _too_large(most, has_images=room is not None), headers=CLOSE)
    if length is not None and (not length.isdecimal() or int(length[:20]) > most):
        raise too_large
    if room is not None:
        await _wait_for_room(context, room, most if length is None else int(length))
    parts, size = [], 0
    ends = asyncio.get_running_loop().time() + context.options.body_seconds
    try:
        async with asyncio.timeout_at(ends) as timer:
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_large
                timer.reschedule(ends + size / SLOWEST)
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, "The body did not arrive in time.", headers=CLOSE) from None
    except ClientDisconnect:
        raise ApiError(400, "The client left.", headers=CLOSE) from None
    return b"".join(parts)


def _too_large(most: int, *, has_images: bool) -> str:
    size = f"{most / 2**20:g} MiB" if most >= 2**20 else f"{most:,} bytes"
    what = "send fewer images, or smaller ones" if has_images else "shorten it"
    return f"The body has more than {size}, the most that is accepted; {what}."


def in_words(error: ValidationError, raw: dict[str, Any]) -> ApiError:
    """Returns an error that names the field, in our own words.

    Among several it is the deepest, if fields may be of several types; and there one about a value of a type that fits.
    """
    errors = error.errors(include_url=False, include_input=False)[:MAX_ERRORS]
    first = max(errors, key=lambda one: (len(_place(one["loc"], raw)), one["type"] not in TYPES))
    kind, known = first["type"], _place(first["loc"], raw)
    field = ".".join([*known, str(first["loc"][-1])] if kind == "missing" else known)[:MAX_FIELD]
    if kind == "extra_forbidden":
        return ApiError(
            400,
            f"The field {quoted(field)} is not known to this server; leave it out.",
            param=field,
            code="unknown_field",
        )
    if kind == "missing":
        return ApiError(400, f"The field {quoted(field)} is missing.", param=field, code="missing_required_parameter")
    if kind in TYPES:
        here = [TYPES[one["type"]] for one in errors if one["type"] in TYPES and _place(one["loc"], raw) == known]
        problem = f"must be {' or '.join(dict.fromkeys(here))}"
    elif kind in BOUNDS:
        problem = BOUNDS[kind].format(**first["ctx"])
    else:  # it may quote the request
        problem = " ".join(str(first["ctx"]["error"]).rstrip(".").split()) if kind == "value_error" else NOT_TAKEN
    where = field if _PLAIN_FIELD.fullmatch(field) else quoted(field)
    return ApiError(400, f"{where or 'The body'}: {problem}.", param=field or None, code="invalid_value")


def _place(place: tuple[int | str, ...], raw: Any) -> list[str]:
    """Returns the place in the request, without the names of the types that were tried there."""
    known: list[str] = []
    for part in place:
        with suppress(KeyError, IndexError, TypeError):
            raw = raw[part]
            known.append(str(part))
    return known
