"""What a hub, the way to it or the disk can answer with, and what a person is told. One sentence and the next step."""

from __future__ import annotations

import errno

import httpx2
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.errors import SafelightError
from engine.hub.record import ClosedError

PASSING_STATUSES = (408, 429, 500, 502, 503, 504)
CLOSED_STATUSES = (401, 403)


class DroppedError(Exception):
    """The server ended an answer before all of it was sent."""


FAULTS = (httpx2.HTTPError, httpx2.InvalidURL, HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, DroppedError)


def is_passing(error: Exception) -> bool:
    """Whether another try may well succeed."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in PASSING_STATUSES
    return isinstance(error, httpx2.TransportError | DroppedError)


def explained(error: Exception, repo: str, endpoint: str, *, with_token: bool) -> SafelightError:
    """The error that is shown for one of ``FAULTS``."""
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    if isinstance(error, HFValidationError):
        return SafelightError(f"{repo!r} is not the name of a repository; it looks like owner/name")
    if isinstance(error, OfflineModeIsEnabled):
        return SafelightError("the environment variable HF_HUB_OFFLINE forbids downloads; unset it and start again")
    if isinstance(error, RevisionNotFoundError | RemoteEntryNotFoundError):
        return SafelightError(f"{repo} has changed at {endpoint}; cancel this download and start it again")
    if isinstance(error, GatedRepoError) or status in CLOSED_STATUSES:
        page = f"{endpoint}/{repo}"
        if with_token:
            return ClosedError(
                f"{repo} is closed to this access token: accept its licence at {page} with the token's account, or "
                "enter another token"
            )
        return ClosedError(f"{repo} is closed: accept its licence at {page}, then enter an access token")
    if isinstance(error, RepositoryNotFoundError) or status == 404:
        return SafelightError(f"there is no repository {repo} at {endpoint}; check the name")
    if status:
        return SafelightError(
            f"{endpoint} answers with error {status}; try again later, the download goes on where it stood"
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return SafelightError(
            f"there is no connection to {endpoint}; check the network and resume, the download goes on where it stood"
        )
    return SafelightError(
        f"the connection to {endpoint} keeps breaking; resume later, the download goes on where it stood"
    )


def disk(error: OSError, what: str) -> SafelightError:
    """The error that is shown where writing fails."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SafelightError(f"{what}: the disk is full; make room and resume, the download goes on where it stood")
    return SafelightError(f"{what} cannot be written ({error.strerror or error}); check the data folder")
