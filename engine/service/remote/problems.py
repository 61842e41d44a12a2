"""Errors of a server, in sentences that say what to do."""

from __future__ import annotations

import ssl
from typing import Any

import httpx2

from engine.errors import SafelightError, Sentence, quoted
from engine.files import parse_json
from engine.service.remote.address import RemoteAddress

WIRE_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL)
MAX_SAID = 300  # characters of a server's own message
_FIELDS = ("message", "detail", "msg", "error")


class RemoteError(SafelightError):
    """A server cannot be asked, or refuses; ``sentence`` can be translated."""

    def __init__(self, pattern: str, /, **values: object) -> None:
        self.sentence = pattern if isinstance(pattern, Sentence) else Sentence(pattern, **values)
        super().__init__(self.sentence)


class KeyRefusedError(RemoteError):
    """The server needs a key, or another one."""


class RefusedError(RemoteError):
    """The server refuses a request, and says why."""


def broken_off() -> RemoteError:
    """Returns the error for a stream that ended before the answer did."""
    return RemoteError("The connection to the server was lost during the answer. Try again.")


def in_the_midst(error: Exception, address: RemoteAddress) -> RemoteError:
    """Returns the error for one of ``WIRE_ERRORS`` after an answer had begun."""
    if not isinstance(error, httpx2.TimeoutException):
        return broken_off()
    return RemoteError("The server at {where} stopped sending. The text so far is kept.", where=address.origin)


def ended(message: str, address: RemoteAddress) -> RemoteError:
    """Returns the error for one that a server sends in the middle of an answer."""
    return RemoteError("The server at {where} ended the answer: {said}", where=address.origin, said=message or "?")


def strange(address: RemoteAddress) -> RemoteError:
    """Returns the error for an answer that is none."""
    return RemoteError(
        "There is no OpenAI-compatible server at {address}. Check the address; usually it ends with /v1.",
        address=address.base,
    )


def offline(address: RemoteAddress) -> RemoteError:
    """Returns the error for an address that must not be reached."""
    return RemoteError(
        "Offline is on: only servers on this computer are reached, not {host}. Turn it off in the settings.",
        host=address.host,
    )


def of_wire(error: Exception, address: RemoteAddress) -> RemoteError:
    """Returns the error for one of ``WIRE_ERRORS``, before the answer began."""
    where = address.origin
    if _certificate(error):
        return RemoteError(
            "The certificate of {where} is not valid or not trusted. Ask the owner of the server, or use http:// "
            "within your own network.",
            where=where,
        )
    if isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError):
        return RemoteError(
            "There is no server at {where}. Check the address, and that the server is running.", where=where
        )
    if isinstance(error, httpx2.TimeoutException):
        return RemoteError("The server at {where} does not answer in time. Try again later.", where=where)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return RemoteError("{where} is not a valid address. Check it.", where=where)
    return RemoteError(
        "The connection to {where} was lost before it answered. Check that the server is running.", where=where
    )


def of_status(status: int, body: bytes, address: RemoteAddress) -> RemoteError:
    """Returns the error for an answer with another status than 200."""
    where, said = address.origin, said_in(body)
    known = {"where": where, "said": said or str(status), "model": address.model}
    if status in (401, 403):
        return KeyRefusedError("The server at {where} refuses the key. Enter another one.", where=where)
    if 300 <= status < 400:
        return RemoteError(
            "{where} redirects to another address, which is not followed. Enter that address.", where=where
        )
    if status == 404 and address.model and said:
        return RemoteError("The server at {where} has no model {model}: {said}", **known)
    if status in (404, 405):
        return strange(address)
    if status == 413:
        return RemoteError("The prompt is too large for {where}. Shorten it, or use smaller pictures.", where=where)
    if status == 429:
        return RemoteError("The server at {where} is busy. Try again in a moment.", where=where)
    if status in (502, 504):
        return RemoteError(
            "{where} passes requests on to a server that does not answer ({status}). Check that the server behind it "
            "is running, then try again.",
            where=where,
            status=status,
        )
    if status == 503:
        return RemoteError("The server at {where} is not ready, its model may still be loading: {said}", **known)
    if status < 500:
        return RefusedError("The server at {where} refuses the request: {said}", **known)
    return RefusedError("The server at {where} failed: {said}", **known)


def said_in(body: bytes) -> str:
    """Returns the message in an error's body, in one line and quoted if it is long; empty without one."""
    try:
        return said_by(parse_json(body.decode("utf-8", "replace"), "the error", surrogates=True))
    except SafelightError:
        return ""


def said_by(error: Any) -> str:
    """Returns the message of an error object: in ``error.message``, ``error``, ``detail`` or lists of these."""
    for _ in range(4):
        if isinstance(error, list) and error:
            error = error[0]
        elif isinstance(error, dict):
            error = next((error[name] for name in _FIELDS if error.get(name)), "")
    if not isinstance(error, str):
        return "" if error is None else quoted(error)
    line = " ".join(error.encode("utf-8", "replace").decode().split())
    line = "".join(sign if sign.isprintable() else " " for sign in line)
    return line if len(line) <= MAX_SAID else line[:MAX_SAID] + "…"


def _certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
