"""HTTP to a hub, for searches and downloads: a client within bounds, and its faults as one sentence for people."""

from __future__ import annotations

from typing import Any, cast

import httpx2
from huggingface_hub.errors import HfHubHTTPError

from engine.errors import ClosedError, SafelightError, proxy_error

BODY_BYTES = 8 * 2**20  # of an answer that is no file
SECONDS = 10.0  # without a byte

FAULTS = (
    *(httpx2.HTTPError, httpx2.InvalidURL, OSError),
    *(ValueError, TypeError, LookupError, AttributeError, RecursionError),  # of an answer that is none of a hub
)
_CHANGED = "{repo} has changed at {endpoint}; cancel this download and start it again"
_NONE = "there is no repository {repo} at {endpoint}; check the name"
_CLOSED = "{repo} is closed{whose}: accept its licence at {endpoint}/{repo}{then}"
_ABSENT = "there is no connection to {endpoint}; check the network, or the proxy that is set here, then try again"
_BROKEN = "the connection to {endpoint} keeps breaking; resume later; the download goes on from here"
_OTHER = (
    "{endpoint} does not answer as a hub does; check its address. If this network asks for a password, open a web page "
    "first, then try again"
)
_SENTENCES: dict[object, str] = {
    **{"RevisionNotFound": _CHANGED, "EntryNotFound": _CHANGED, "RepoNotFound": _NONE, "GatedRepo": _CLOSED},
    **{401: _CLOSED, 403: _CLOSED, 404: _NONE},
    HfHubHTTPError: "{endpoint} answers with error {status}; try again later; the download goes on there",
    **dict.fromkeys((httpx2.ConnectError, httpx2.TimeoutException, httpx2.ProxyError), _ABSENT),
    TimeoutError: "another program downloads the same file of {repo}; resume when it is done",
    **dict.fromkeys((httpx2.TooManyRedirects, httpx2.UnsupportedProtocol), _OTHER),
    **{httpx2.HTTPError: _BROKEN, OSError: _BROKEN, Exception: _OTHER},
}
"""By the code that the hub gives its refusal, the status, or the nearest class of the error."""


def explained(error: Exception, repo: str, endpoint: str, *, with_token: bool) -> SafelightError:
    """Returns the error that is shown for one of ``FAULTS``."""
    answer = error.response if isinstance(error, HfHubHTTPError) else httpx2.Response(0)
    keys = (answer.headers.get("X-Error-Code"), answer.status_code, *type(error).__mro__)
    sentence = next(_SENTENCES[key] for key in keys if key in _SENTENCES)
    whose = " to this access token" if with_token else ""
    then = " with the token's account, or enter another token" if with_token else ", then enter an access token"
    kind = ClosedError if sentence is _CLOSED else SafelightError
    known = {"repo": repo, "endpoint": endpoint, "status": answer.status_code}
    return kind(sentence.format(whose=whose, then=then, **known))


def open_client(**options: Any) -> httpx2.Client:
    """Returns an HTTP client with further ``options`` of httpx2's, which follows redirects and asks for plain answers.

    Raises:
        SafelightError: the proxy of this computer cannot be used.
    """
    plain = {"Accept-Encoding": "identity"}
    try:
        return httpx2.Client(headers=plain, timeout=SECONDS, follow_redirects=True, **options)
    except (ValueError, ImportError, httpx2.InvalidURL):  # without their packages some proxies are not spoken
        raise proxy_error() from None


def bounded(answer: httpx2.Response) -> None:
    """Refuses what was not asked for, and reads what is no file within bounds."""
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise httpx2.ReadError("compressed, which was not requested")
    if answer.is_error:
        raise HfHubHTTPError("refused", response=answer)  # its head says enough
    if answer.is_redirect or answer.url.path.startswith("/api/"):
        stream, body = cast(httpx2.SyncByteStream, answer.stream), b""
        for piece in stream:
            body += piece
            if len(body) > BODY_BYTES:
                raise SafelightError(f"{answer.url.host} sends a list of over {BODY_BYTES:,} bytes; check the address")
        stream.close()
        answer.stream = httpx2.ByteStream(body)
