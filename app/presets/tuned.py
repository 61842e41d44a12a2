"""The preset that a tuning makes of the setting it has chosen. Knows no Qt."""

from __future__ import annotations

import uuid

from app.presets.preset import LONGEST_NAME, Preset, free_name, overrides_in_order
from app.presets.store import PresetStore
from app.settings.decoders import DecodingChoice
from app.settings.values import SettingsValues
from app.state.tuning.candidates import Candidate
from app.state.tuning.result import TuningResult
from app.system.i18n import tr


def values_of(candidate: Candidate) -> tuple[dict[str, float], DecodingChoice]:
    """Returns a candidate as overrides of the sampler, and a decoding."""
    return {candidate.setting: candidate.threshold}, DecodingChoice(acceptance=candidate.acceptance)


def apply_candidate(values: SettingsValues, candidate: Candidate) -> None:
    """Sets a candidate's rule and threshold; the sampler's other numbers stay, and decoding is else the model's own."""
    overrides, decoding = values_of(candidate)
    values.overrides = {**values.overrides, **overrides}
    values.decoding = decoding


def save_tuned(store: PresetStore, result: TuningResult) -> str:
    """Saves the chosen setting as a preset and returns its name. An earlier tuning's of the same name is replaced.

    Raises:
        SafelightError: the presets cannot be written.
    """
    name = tr("{model}, tuned on {task}", model=result.model, task=result.task)[:LONGEST_NAME]
    overrides, decoding = values_of(result.chosen.candidate)
    pairs = overrides_in_order(overrides.items())
    before = next((preset for preset in store.own if preset.name == name), None)
    if before is None:
        name = free_name(name, (preset.name for preset in store.presets))
        store.write((*store.own, Preset(uuid.uuid4().hex, name, overrides=pairs, decoding=decoding)))
    else:
        now = before.replace(overrides=pairs, decoding=decoding)
        store.write([now if preset is before else preset for preset in store.own])
    return name
