"""Parses the lanes of ``safelight race``, written ``MODEL:DECODER,setting=value``. Knows no torch."""

from __future__ import annotations

from typing import Any

from app.cli.options import DECODING, KNOBS, check_changes
from app.state.race.lanes import LaneSpec
from engine import SafelightError
from engine.config import is_decoder
from engine.errors import quoted
from engine.service import is_remote

ADAPTER, SWITCH = "adapter", "token-thoughts"
_KNOBS = {knob.option.removeprefix("--"): knob for knob in (*KNOBS, *DECODING) if knob.field != "decoder"}
_SWITCH = {"true": True, "false": False, "yes": True, "no": False}


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
    if name in (SWITCH, SWITCH.replace("-", "_")):
        if value not in _SWITCH:
            raise SafelightError(f"{name} must be true or false, not {quoted(value)}")
        return {"token_thoughts": _SWITCH[value]}
    knob = _KNOBS.get(name.replace("_", "-"))
    if knob is None:
        known = ", ".join((SWITCH, ADAPTER, *_KNOBS))
        raise SafelightError(f"{quoted(name)} is not a setting of a lane; use {known}")
    try:
        return {knob.field: knob.read(value)}
    except ValueError:
        kind = "whole number" if knob.read is int else "number"
        raise SafelightError(f"{name} of a lane must be a {kind}, not {quoted(value)}") from None
