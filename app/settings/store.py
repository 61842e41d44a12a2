"""Keeps the settings between sessions in QSettings. Values that cannot be read are left out, never fatal."""

from __future__ import annotations

from PySide6.QtCore import QSettings

from app.settings.spec import LAYER, PACE, SAMPLER, SEED_HIGH, SEED_LOW
from app.settings.values import SettingsValues

THEMES = ("system", "darkroom", "paper")


def default_settings() -> QSettings:
    """The user's settings file (or registry key)."""
    return QSettings("Safelight", "Safelight")


def _number(settings: QSettings, key: str, low: float, high: float) -> float | None:
    raw = settings.value(key)
    if raw is None:
        return None
    try:
        value = float(str(raw))
    except ValueError:
        return None
    return value if low <= value <= high else None


def _flag(settings: QSettings, key: str, default: bool) -> bool:
    raw = settings.value(key)
    return default if raw is None else str(raw).lower() in ("true", "1")


def read_values(settings: QSettings, reduced_motion: bool) -> SettingsValues:
    """The stored settings; ``reduced_motion`` is the platform's wish, used where the user has not chosen."""
    values = SettingsValues()
    for setting in SAMPLER:
        found = _number(settings, f"sampler/{setting.name}", setting.low, setting.high)
        if found is not None:
            values.overrides[setting.name] = int(found) if setting.is_whole else found
    seed = _number(settings, "sampler/seed", SEED_LOW, SEED_HIGH)
    values.seed = None if seed is None else int(seed)
    values.calm = _flag(settings, "canvas/calm", False)
    layer = str(settings.value("canvas/layer", "state"))
    values.layer = layer if layer in dict(LAYER.options) else "state"
    pace = _number(settings, "canvas/pace_ms", PACE.low, PACE.high)
    if pace is not None:
        values.pace_ms = int(pace)
    values.reduced_motion = _flag(settings, "canvas/reduced_motion", reduced_motion)
    return values


def write_values(settings: QSettings, values: SettingsValues, reduced_motion: bool, *, keep_seed: bool) -> None:
    """Store what the user has set; what follows the model or the platform is not written.

    ``keep_seed`` leaves the stored seed alone, when the one in ``values`` was given for this session only.
    """
    for setting in SAMPLER:
        _write(settings, f"sampler/{setting.name}", values.overrides.get(setting.name))
    if not keep_seed:
        _write(settings, "sampler/seed", values.seed)
    _write(settings, "canvas/calm", values.calm)
    _write(settings, "canvas/layer", values.layer)
    _write(settings, "canvas/pace_ms", values.pace_ms)
    own = values.reduced_motion != reduced_motion
    _write(settings, "canvas/reduced_motion", values.reduced_motion if own else None)


def _write(settings: QSettings, key: str, value: object) -> None:
    if value is None:
        settings.remove(key)
    else:
        settings.setValue(key, value)


def read_theme(settings: QSettings) -> str:
    """Which theme the user chose; ``system`` follows the desktop."""
    found = str(settings.value("window/theme", "system"))
    return found if found in THEMES else "system"


def write_theme(settings: QSettings, choice: str) -> None:
    settings.setValue("window/theme", choice)


def read_strip_open(settings: QSettings) -> bool:
    """Whether the settings strip was open."""
    return _flag(settings, "window/settings_open", False)


def write_strip_open(settings: QSettings, is_open: bool) -> None:
    settings.setValue("window/settings_open", is_open)
