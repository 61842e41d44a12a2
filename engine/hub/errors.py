"""Errors of the hub, the network and the disk, as messages for people: one sentence and the next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from engine.errors import SafelightError
from engine.hub.record import ClosedError
from engine.hub.wire import BrokenError

TRANSIENT_STATUSES = (408, 429, 500, 502, 503, 504)
CLOSED_STATUSES = (401, 403)


class StatusError(Exception):
    """An HTTP status with which the hub refuses, and the code that hubs add to it."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(status, code)
        self.status, self.code = status, code


class RedirectError(Exception):
    """Too many redirects, or one to an address that is not allowed."""


ABSENT_ERRORS = (httpx2.ConnectError, httpx2.TimeoutException, httpx2.ProxyError)
"""Raised if nobody answers: no such host, no route to it, or no answer in time."""
TRANSFER_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, StatusError, BrokenError, RedirectError)


def is_transient(error: Exception) -> bool:
    """Returns True if another try may succeed."""
    if isinstance(error, StatusError):
        return error.status in TRANSIENT_STATUSES
    if isinstance(error, httpx2.UnsupportedProtocol):
        return False
    return isinstance(error, httpx2.TransportError | BrokenError)


def absent(endpoint: str) -> SafelightError:
    """Returns the error that is shown if a hub was never reached."""
    return SafelightError(f"there is no connection to {endpoint}; check the network, then try again")


def explained(error: Exception, repo: str, endpoint: str, *, with_token: bool) -> SafelightError:
    """Returns the error that is shown for one of ``TRANSFER_ERRORS``."""
    status, code = (error.status, error.code) if isinstance(error, StatusError) else (0, "")
    if code in ("RevisionNotFound", "EntryNotFound"):
        return SafelightError(f"{repo} has changed at {endpoint}; cancel this download and start it again")
    if code != "RepoNotFound" and (code == "GatedRepo" or status in CLOSED_STATUSES):
        page = f"{endpoint}/{repo}"
        if with_token:
            return ClosedError(
                f"{repo} is closed to this access token: accept its licence at {page} with the token's account, or "
                "enter another token"
            )
        return ClosedError(f"{repo} is closed: accept its licence at {page}, then enter an access token")
    if code == "RepoNotFound" or status == 404:
        return SafelightError(f"there is no repository {repo} at {endpoint}; check the name")
    if status:
        return SafelightError(
            f"{endpoint} answers with error {status}; try again later; the download goes on from here"
        )
    if isinstance(error, RedirectError | httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return SafelightError(f"{endpoint} redirects to an address without files; check the address of the hub")
    if isinstance(error, ABSENT_ERRORS):
        return SafelightError(
            f"there is no connection to {endpoint}; check the network and resume; the download goes on from here"
        )
    return SafelightError(f"the connection to {endpoint} keeps breaking; resume later; the download goes on from here")


def foreign(path: Path) -> SafelightError:
    """Returns the error that is shown if something else has the name of a file of ours."""
    return SafelightError(f"{path} is not part of this download; move it away, then resume")


@contextmanager
def explaining_disk(part: Path) -> Iterator[None]:
    """Turns an ``OSError`` of writing into a message for people.

    Raises:
        SafelightError: the disk is full, or the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise foreign(part) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SafelightError(
                f"{part.parent}: the disk is full; free some space and resume; the download goes on from here"
            ) from error
        raise SafelightError(
            f"{part.parent} cannot be written ({error.strerror or error}); check the data folder"
        ) from error
