"""The refusals of requests: a status and an error object as OpenAI writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.responses import JSONResponse

from engine.errors import SafelightError, sentence

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a terminal would take them for orders
UNSUPPORTED = "unsupported_value"  # the code of known fields that cannot be honoured
BUSY_SECONDS = 2  # after which a refused client may ask again


class ApiError(Exception):
    """A refusal.

    Args:
        status: of HTTP.
        message: a sentence that says what to do.
        param: the field of the request that is at fault.
        code: a word by which programs recognise it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        message = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", message)  # it may quote what was sent
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, self.headers)


@contextmanager
def refusing(param: str | None = None, code: str | None = None) -> Iterator[None]:
    """Turns a ``SafelightError`` of its block into a refusal of the request, for the field ``param``."""
    try:
        yield
    except SafelightError as error:
        raise ApiError(400, sentence(error), param=param, code=code) from None


def unsupported(message: str, param: str | None = None) -> ApiError:
    """Returns the error if a known field cannot be honoured."""
    return ApiError(400, message, param=param, code=UNSUPPORTED)


def unread(message: str, param: str) -> ApiError:
    """Returns the error if a part of a message is of a kind that cannot be read."""
    return ApiError(400, message, param=param, code="unsupported_content")


def no_model() -> ApiError:
    """Returns the error if no model is loaded or loading: asking again at once is of no use."""
    return ApiError(
        503, "No model is loaded. Load one in Safelight, then ask again.", headers={"x-should-retry": "false"}
    )


def too_many(message: str) -> ApiError:
    """Returns the error if too many requests wait."""
    return ApiError(429, message, code="too_many_requests", headers={"Retry-After": str(BUSY_SECONDS)})


def elsewhere() -> ApiError:
    """Returns the error if the loaded model is itself remote."""
    return ApiError(501, "The loaded model runs on another server; send the request there.", code=UNSUPPORTED)
