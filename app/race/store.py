"""Stores the lanes between two starts of the app, as a file in the data folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.settings.decoders import DecodingChoice
from app.settings.spec import SAMPLER
from app.state.race.lanes import LaneSpec
from app.system.folders import ensure
from engine import SafelightError
from engine.config import IMAGE_TOKENS, is_decoder
from engine.files import read_json, write_json
from engine.service import is_remote
from engine.service.requests import FEWEST_LANES, MOST_LANES

NAME = "race.json"
FILE_BYTES = 2**16
LONGEST = 4096  # characters of a path


def read_lanes(folder: Path) -> tuple[LaneSpec, ...]:
    """Returns the stored lanes; an empty tuple if the file is missing or cannot be read."""
    path = folder / NAME
    if not path.is_file():
        return ()
    try:
        raw = read_json(path, most=FILE_BYTES)
    except SafelightError:
        return ()
    lanes = raw.get("lanes")
    found = [_lane(one) for one in lanes[:MOST_LANES]] if isinstance(lanes, list) else []
    known = tuple(lane for lane in found if lane is not None)
    return known if len(known) >= FEWEST_LANES else ()


def write_lanes(folder: Path, lanes: Sequence[LaneSpec]) -> None:
    """Replaces the stored lanes.

    Raises:
        SafelightError: The folder or the file cannot be written.
    """
    said = [
        {"model": lane.model, "decoder": lane.decoder, "adapter": lane.adapter, "settings": dict(lane.changes)}
        for lane in lanes
    ]
    write_json(ensure(folder) / NAME, {"lanes": said})


def _lane(raw: Any) -> LaneSpec | None:
    if not isinstance(raw, Mapping):
        return None
    model, adapter = _name(raw.get("model")), _name(raw.get("adapter"))
    if not model or is_remote(model):
        return None
    decoder, settings = raw.get("decoder"), raw.get("settings")
    changes = _changes(settings) if isinstance(settings, Mapping) else {}
    return LaneSpec(model, decoder if isinstance(decoder, str) and is_decoder(decoder) else "", changes, adapter)


def _name(raw: Any) -> str:
    return raw if isinstance(raw, str) and len(raw) <= LONGEST and "\0" not in raw else ""


def _changes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the known settings whose values are within their bounds."""
    found: dict[str, Any] = replace(DecodingChoice.read(raw), decoder="").changes
    budget = raw.get("image_tokens")
    if isinstance(budget, int) and budget in IMAGE_TOKENS:
        found["image_tokens"] = budget
    for setting in SAMPLER:
        value = raw.get(setting.name)
        if isinstance(value, bool) or not isinstance(value, int if setting.is_whole else int | float):
            continue
        if setting.low <= value <= setting.high:
            found[setting.name] = value
    return found
