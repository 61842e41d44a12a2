"""Makes a preset of the setting that a tuning has chosen. Knows no Qt."""

from __future__ import annotations

import dataclasses
import uuid

from app.presets.preset import LONGEST_NAME, Preset, free_name
from app.presets.store import PresetStore
from app.settings.decoders import DecodingChoice
from app.settings.values import SettingsValues
from app.state.tuning.result import TuningResult
from app.system.i18n import tr


def _apply(values: SettingsValues, result: TuningResult) -> None:
    """Sets the chosen rule and its numbers. What the tuning did not vary stays as it is.

    What it varied, and the chosen rule uses without a number of its own, becomes the model's own: so it was tried.
    """
    chosen = result.chosen.candidate
    own = result.varied & DecodingChoice(acceptance=chosen.acceptance).settings
    kept = {name: value for name, value in values.overrides.items() if name not in own}
    values.overrides = kept | chosen.numbers
    values.decoding = dataclasses.replace(values.decoding, acceptance=chosen.acceptance)


def save_tuned(store: PresetStore, result: TuningResult, values: SettingsValues) -> str:
    """Saves the chosen setting as a preset and returns its name. An earlier tuning's of the same name is changed.

    Args:
        values: the user's, which a new preset has but for what is chosen.

    Raises:
        SafelightError: the presets cannot be written.
    """
    name = tr("{model}, tuned on {task}", model=result.model, task=result.task)[:LONGEST_NAME]
    before = next((preset for preset in store.own if preset.name == name), None)
    made = before or Preset(uuid.uuid4().hex, free_name(name, (preset.name for preset in store.presets)))
    values = SettingsValues(dict((before or values).overrides), decoding=(before or values).decoding)
    _apply(values, result)
    made = made.with_values(values)
    store.write((*store.own, made) if before is None else [made if one is before else one for one in store.own])
    return made.name
