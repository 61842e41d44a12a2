"""A measurement of influence as JSON: what is asked, and what is found. C positions, K likeliest tokens.

asked   {"source": …, "block", "canvas": [C], "position", "token", "temperature"}
found   {"position", "token", "kl": [C], "measured": [C], "before": {"tokens": [[K] × C], "shares": …}, "after": …}
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import MOST_CANVAS, MOST_TOKENS
from engine.errors import SafelightError
from engine.events import Influence
from engine.service.requests import InfluenceRequest
from engine.service.wire.fields import fields, items, real, tokens, whole
from engine.service.wire.source import FindPicture, none_sent, source_from_json, source_to_json
from engine.trace.format import MOST_BLOCKS, MOST_NUMBER, MOST_TOP
from engine.types import Tokens

_ASKED = ("source", "block", "canvas", "position", "token", "temperature")
_FOUND = ("position", "token", "kl", "measured", "before", "after")


def influence_request_to_json(request: InfluenceRequest) -> dict[str, Any]:
    """Returns a request as JSON.

    Raises:
        SafelightError: its run was recorded without its first blocks.
    """
    return {
        "source": source_to_json(request.trace),
        "block": request.block,
        "canvas": [int(token) for token in request.canvas],
        "position": request.position,
        "token": request.token,
        "temperature": request.temperature,
    }


def influence_request_from_json(raw: Any, find: FindPicture = none_sent) -> InfluenceRequest:
    """Returns the request of a JSON payload.

    Raises:
        SafelightError: it is none.
    """
    raw = fields(raw, "a measurement", _ASKED, _ASKED)
    return InfluenceRequest(
        source_from_json(raw["source"], find),
        whole(raw, "block", 0, MOST_BLOCKS - 1),
        tuple(tokens(raw, "canvas", MOST_CANVAS)),
        whole(raw, "position", 0, MOST_CANVAS - 1),
        whole(raw, "token", 0, MOST_TOKENS),
        real(raw, "temperature"),
    )


def influence_to_json(found: Influence) -> dict[str, Any]:
    return {
        "position": found.position,
        "token": found.token,
        "kl": found.kl.tolist(),
        "measured": found.measured.tolist(),
        "before": _top_to_json(found.before_top),
        "after": _top_to_json(found.after_top),
    }


def influence_from_json(raw: Any) -> Influence:
    """Returns the result of a JSON payload.

    Raises:
        SafelightError: it is none.
    """
    raw = fields(raw, "the measured influence", _FOUND, _FOUND)
    kl = _reals(items(raw, "kl", MOST_CANVAS))
    measured = items(raw, "measured", MOST_CANVAS)
    if len(measured) != len(kl) or not all(isinstance(value, bool) for value in measured):
        raise SafelightError("the measured influence contradicts itself")
    return Influence(
        whole(raw, "position", 0, len(kl) - 1),
        whole(raw, "token", 0, MOST_TOKENS),
        kl,
        np.array(measured, dtype=np.bool_),
        _top_from_json(raw["before"], len(kl)),
        _top_from_json(raw["after"], len(kl)),
    )


def _top_to_json(top: tuple[Tokens, NDArray[np.float32]]) -> dict[str, Any]:
    return {"tokens": top[0].tolist(), "shares": top[1].tolist()}


def _top_from_json(raw: Any, length: int) -> tuple[Tokens, NDArray[np.float32]]:
    raw = fields(raw, "the likeliest tokens", ("tokens", "shares"), ("tokens", "shares"))
    rows = items(raw, "tokens", length)
    shares = items(raw, "shares", length)
    count = len(rows[0]) if rows and isinstance(rows[0], list) else 0
    is_table = all(isinstance(row, list) and len(row) == count for row in (*rows, *shares))
    if not is_table or len(rows) != length or len(shares) != length or count > MOST_TOP:
        raise SafelightError("the likeliest tokens must be a table with one row for each position")
    found = [tokens({"tokens": row}, "tokens", MOST_TOP) for row in rows]
    values = [_reals(row) for row in shares]
    return (
        np.array(found, dtype=np.int32).reshape(length, count),
        np.array(values, dtype=np.float32).reshape(length, count),
    )


def _reals(values: list[Any]) -> NDArray[np.float32]:
    if not all(type(value) in (int, float) and abs(value) <= MOST_NUMBER for value in values):
        raise SafelightError("a measured number is out of bounds")
    return np.array(values, dtype=np.float32)
