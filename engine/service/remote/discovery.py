"""Finds out what a server is, which models it has, and whether it can be reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import SafelightError, Sentence
from engine.service.remote import problems
from engine.service.remote.address import RemoteAddress
from engine.service.remote.calls import PATIENCE, Calls, Check, RemotePatience, anywhere, count_of, field_of, no_check
from engine.service.remote.problems import RemoteError

ServerKind = Literal["safelight", "vllm", "openai"]
MAX_MODELS = 10_000
_CONTEXTS = (
    ("max_model_len",),
    ("context_length",),
    ("max_context_length",),
    ("loaded_context_length",),
    ("meta", "n_ctx"),  # llama.cpp's
)


@dataclass(frozen=True)
class RemoteModel:
    """A model that a server lists."""

    address: RemoteAddress  # with the model's name; its ``str`` is the path that it is loaded by
    kind: ServerKind
    context: int = 0  # tokens; 0 where the server does not say

    @property
    def id(self) -> str:
        return self.address.model


@dataclass(frozen=True)
class Reachability:
    """The result of a probe. ``words`` can be translated."""

    is_reachable: bool
    words: Sentence
    milliseconds: float = 0.0  # until the answer
    models: tuple[RemoteModel, ...] = ()
    wants_key: bool = False


def list_models(
    address: RemoteAddress,
    key: str | None = None,
    *,
    is_allowed: Callable[[str], bool] = anywhere,
    patience: RemotePatience = PATIENCE,
) -> tuple[RemoteModel, ...]:
    """Returns the models of a server, in its order. Uses the network.

    Raises:
        RemoteError: the server does not answer, or refuses.
    """
    return models_of(Calls(address, key, is_allowed, patience))


def probe(
    address: RemoteAddress,
    key: str | None = None,
    *,
    is_allowed: Callable[[str], bool] = anywhere,
    patience: RemotePatience = PATIENCE,
) -> Reachability:
    """Checks whether a server answers. Uses the network, and never raises for its findings."""
    started = time.monotonic()
    try:
        models = list_models(address, key, is_allowed=is_allowed, patience=patience)
    except RemoteError as error:
        return Reachability(False, error.sentence, wants_key=isinstance(error, problems.KeyRefusedError))
    milliseconds = 1000 * (time.monotonic() - started)
    if len(models) == 1:
        words = Sentence("Reachable, with one model")
    else:
        words = Sentence("Reachable, with {count} models", count=len(models))
    return Reachability(True, words, milliseconds, models)


def models_of(calls: Calls, check: Check = no_check) -> tuple[RemoteModel, ...]:
    raw = calls.json(calls.address.base + "/models", check=check)
    listed = field_of(raw, "data")
    if not isinstance(listed, list) or len(listed) > MAX_MODELS:
        raise problems.strange(calls.address)
    found = (_model(one, calls.address) for one in listed)
    return tuple(model for model in found if model is not None)


def _model(raw: Any, address: RemoteAddress) -> RemoteModel | None:
    """Returns a model of the list; None if it has no usable name."""
    name = field_of(raw, "id")
    if not isinstance(name, str) or not name:
        return None
    try:
        named = address.with_model(name)
    except SafelightError:
        return None
    owner = raw.get("owned_by")
    kind: ServerKind = owner if owner in ("safelight", "vllm") else "openai"
    return RemoteModel(named, kind, _context(raw))


def _context(raw: dict[str, Any]) -> int:
    return next(filter(None, (count_of(raw, *names) for names in _CONTEXTS)), 0)
