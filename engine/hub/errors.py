"""Errors of the hub, the network and the disk, as messages for people: one sentence and the next step."""

from __future__ import annotations

import errno
import os
from urllib.request import getproxies, proxy_bypass

import httpx2
from huggingface_hub.errors import HfHubHTTPError

from engine.errors import SafelightError
from engine.hub.record import ClosedError

ABSENT_ERRORS = (httpx2.ConnectError, httpx2.TimeoutException, httpx2.ProxyError)
"""Raised if nobody answers: no such host, no route to it, or no answer in time."""
LOST_ERRORS = (httpx2.TooManyRedirects, httpx2.UnsupportedProtocol, httpx2.InvalidURL)


def is_transient(error: Exception) -> bool:
    """Returns True if another try may succeed that the library does not make itself."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in (408, 429, 500, 502, 503, 504)
    is_network = isinstance(error, httpx2.NetworkError) and not isinstance(error, httpx2.ConnectError)
    return is_network or (isinstance(error, OSError) and error.errno is None)  # fewer bytes than were listed


def explained(error: Exception, repo: str, endpoint: str, *, with_token: bool) -> SafelightError:
    """Returns the error that is shown for one of the library, of HTTP or of the disk."""
    if isinstance(error, HfHubHTTPError):
        status, code = error.response.status_code, error.response.headers.get("X-Error-Code", "")
        if code in ("RevisionNotFound", "EntryNotFound"):
            return SafelightError(f"{repo} has changed at {endpoint}; cancel this download and start it again")
        if code != "RepoNotFound" and (code == "GatedRepo" or status in (401, 403)):
            page, other = f"{endpoint}/{repo}", ", then enter an access token"
            if with_token:
                other = " with the token's account, or enter another token"
            closed = "closed to this access token" if with_token else "closed"
            return ClosedError(f"{repo} is {closed}: accept its licence at {page}{other}")
        if code == "RepoNotFound" or status == 404:
            return SafelightError(f"there is no repository {repo} at {endpoint}; check the name")
        return SafelightError(f"{endpoint} answers with error {status}; try again later; the download goes on there")
    if isinstance(error, ABSENT_ERRORS):
        proxy = _proxy_of(httpx2.URL(endpoint))
        how = f" through the proxy of {proxy}; check it" if proxy else "; check the network"
        return SafelightError(f"there is no connection to {endpoint}{how}, then try again")
    if isinstance(error, LOST_ERRORS):
        return SafelightError(f"{endpoint} redirects to an address without files; check the address of the hub")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SafelightError("the disk is full; free some space and resume; the download goes on from here")
    if isinstance(error, OSError) and error.errno is not None:
        return SafelightError(f"{error.filename or 'the cache'} cannot be written ({error.strerror}); check the folder")
    return SafelightError(f"the connection to {endpoint} keeps breaking; resume later; the download goes on from here")


def _proxy_of(url: httpx2.URL) -> str:
    """Returns the variable that names a proxy for an address; empty if there is none."""
    if proxy_bypass(url.host) or not getproxies():
        return ""
    names = (f"{url.scheme}_proxy", "all_proxy")
    return next((each for name in names for each in (name.upper(), name) if os.environ.get(each)), "")
