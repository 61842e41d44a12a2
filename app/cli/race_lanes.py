"""Parses the lanes of ``safelight race``, written ``MODEL:DECODER,setting=value``. Knows no torch."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from app.cli.options import OPTIONS, check_changes, read_value
from app.state.race.lanes import LaneSpec
from engine import SafelightError
from engine.config import is_decoder
from engine.errors import quoted
from engine.service import is_remote

ADAPTER = "adapter"
_NAMES = {option.flag.removeprefix("--"): name for name, option in OPTIONS.items() if name != "decoder"}


def read_lane(text: str, default: str) -> LaneSpec:
    """Reads ``MODEL:DECODER,setting=value``; each part is optional.

    Args:
        default: the model if none is named.

    Raises:
        SafelightError: a setting is unknown or out of range, or the model is another machine's.
    """
    whole, *given = text.split(",")
    model, colon, decoder = whole.rpartition(":")
    if not colon or not is_decoder(decoder):  # a path may contain a colon
        model, decoder = whole, ""
    model = model or default
    require_here(model)
    if "\0" in model:
        raise SafelightError(f"{quoted(model)} cannot be a model's name: it contains a NUL character")
    changes: dict[str, Any] = {}
    adapter = ""
    for one in given:
        name, sign, value = one.partition("=")
        if not sign:
            raise SafelightError(f"{quoted(one)} is not a setting of a lane; write it as name=value")
        if name == ADAPTER:
            adapter = value
        else:
            changes |= _change(name, value)
    check_changes(changes)
    return LaneSpec(model, decoder, changes, adapter)


def require_here(model: str) -> None:
    """Checks that a model runs on this machine.

    Raises:
        SafelightError: another machine runs the model.
    """
    if is_remote(model):
        raise SafelightError(f"{quoted(model)} runs on another machine; choose a model on this one")


def _change(name: str, value: str) -> dict[str, Any]:
    setting = _NAMES.get(name.replace("_", "-"))
    if setting is None:
        known = ", ".join((ADAPTER, *_NAMES))
        raise SafelightError(f"{quoted(name)} is not a setting of a lane; use {known}")
    try:
        return {setting: read_value(OPTIONS[setting], value)}
    except ArgumentTypeError as error:
        raise SafelightError(f"{name} of a lane: {error}") from None
