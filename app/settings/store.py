"""Stores the settings in QSettings. Values that cannot be read are omitted.

Their file is readable by its user alone; one that is damaged is set aside.
"""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import asdict
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths

from app.settings.preferences import ITEMS, KEYS, Folder, Preferences
from app.settings.values import PACE, SAMPLER, DecodingChoice, SettingsValues
from app.system.folders import set_aside, tighten
from app.system.i18n import tr
from engine import SafelightError
from engine.catalog import SMALL
from engine.config import LARGEST_SEED
from engine.files import private_folder
from engine.settings import Choice, Setting, Switch

LONGEST_PATH = 4096  # characters
_AUTO = "safelight-auto"  # the small models, as earlier versions called them


def default_settings() -> QSettings:
    """Returns the user's settings, from a file or the registry."""
    return user_settings()[0]


def _number(settings: QSettings, key: str, low: float, high: float) -> float | None:
    raw = settings.value(key)
    if raw is None:
        return None
    try:
        value = float(str(raw))
    except ValueError:
        return None
    return value if low <= value <= high else None


def _seed(settings: QSettings) -> int | None:
    """Reads a seed, a whole number too large for a float."""
    raw = str(settings.value("sampler/seed", ""))
    seed = int(raw) if raw.isascii() and raw.isdigit() and len(raw) < 20 else -1
    return seed if 0 <= seed <= LARGEST_SEED else None


def _flag(settings: QSettings, key: str, default: bool) -> bool:
    raw = settings.value(key)
    return default if raw is None else str(raw).lower() in ("true", "1")


def read_values(settings: QSettings, reduced_motion: bool) -> SettingsValues:
    """Reads the stored settings; ``reduced_motion`` is the platform's setting, the default of the user's."""
    values = SettingsValues()
    for name, setting in SAMPLER.items():
        number = _number(settings, f"sampler/{name}", setting.low, setting.high)
        if number is not None:
            values.overrides[name] = int(number) if setting.is_whole else number
    names = (*asdict(values.decoding), "thought_decoder", "answer_decoder")  # the latter of earlier versions
    values.decoding = DecodingChoice.read({name: settings.value(f"sampler/{name}") for name in names})
    values.seed = _seed(settings)
    values.calm = _flag(settings, "canvas/calm", False)
    pace = str(settings.value("canvas/pace", values.pace))
    if pace in dict(PACE.options):
        values.pace = pace
    values.reduced_motion = _flag(settings, "canvas/reduced_motion", reduced_motion)
    return values


def write_values(settings: QSettings, values: SettingsValues, reduced_motion: bool, *, keep_seed: bool) -> None:
    """Stores the user's settings; defaults of the model or the platform are not written.

    ``keep_seed`` keeps the stored seed if the one in ``values`` is for this session only.
    """
    for name in SAMPLER:
        _write(settings, f"sampler/{name}", values.overrides.get(name))
    for name in asdict(values.decoding):
        _write(settings, f"sampler/{name}", values.decoding.changes.get(name))
    if not keep_seed:
        _write(settings, "sampler/seed", None if values.seed is None else str(values.seed))
    _write(settings, "canvas/calm", values.calm)
    _write(settings, "canvas/pace", values.pace)
    own = values.reduced_motion != reduced_motion
    _write(settings, "canvas/reduced_motion", values.reduced_motion if own else None)


def _write(settings: QSettings, key: str, value: object) -> None:
    if value is None:
        settings.remove(key)
    else:
        settings.setValue(key, value)


def read_preferences(settings: QSettings) -> Preferences:
    """Reads the stored preferences; defaults for missing or unreadable ones."""
    preferences = Preferences()
    for name, item in ITEMS.items():
        if (value := _stored(settings, KEYS[name], item)) is not None:
            setattr(preferences, name, value)
    return preferences


def write_preference(settings: QSettings, preferences: Preferences, name: str) -> None:
    """Stores one preference; a default is not written."""
    value = getattr(preferences, name)
    _write(settings, KEYS[name], None if value == getattr(Preferences(), name) else value)


def _stored(settings: QSettings, key: str, item: Choice | Setting | Switch | Folder) -> str | int | bool | None:
    raw = settings.value(key)
    if raw is None:
        return None
    match item:
        case Choice():
            return str(raw) if str(raw) in dict(item.options) else None
        case Setting():
            number = _number(settings, key, item.low, item.high)
            return None if number is None else int(number)
        case Switch():
            return {"true": True, "1": True, "false": False, "0": False}.get(str(raw).lower())
        case Folder():
            return raw if isinstance(raw, str) and "\0" not in raw and Path(raw).is_absolute() else None
    return None


def unread(settings: QSettings) -> str:
    """Returns a message about unreadable settings, or an empty text; most fall back to defaults silently."""
    if settings.value(KEYS["data_folder"]) in (None, "") or read_preferences(settings).data_folder:
        return ""
    return tr("The data folder in the settings cannot be read. Choose it again; until then the default is used.")


def read_open(settings: QSettings, part: str, *, default: bool) -> bool:
    """True if a collapsible part of the window, "settings", "advanced" or "sidebar", was open."""
    return _flag(settings, f"window/{part}_open", default)


def write_open(settings: QSettings, part: str, is_open: bool) -> None:
    settings.setValue(f"window/{part}_open", is_open)


def read_conversation(settings: QSettings) -> int | None:
    return _id(settings, "window/conversation")


def _id(settings: QSettings, key: str) -> int | None:
    number = _number(settings, key, 1, 2**53)
    return None if number is None else int(number)


def write_conversation(settings: QSettings, conversation: int | None) -> None:
    _write(settings, "window/conversation", conversation)


def read_reopening(settings: QSettings) -> int | None:
    """Reads the conversation that was being reopened when the app ended, if it ended during that."""
    return _id(settings, "window/reopening")


def write_reopening(settings: QSettings, conversation: int | None) -> None:
    """Stores the conversation that is being reopened; synced to disk before returning, as the app may crash next."""
    _write(settings, "window/reopening", conversation)
    settings.sync()


def read_window(settings: QSettings) -> QByteArray:
    """Reads the window's place and size, as Qt wrote them; empty if not stored."""
    geometry = settings.value("window/geometry")
    return geometry if isinstance(geometry, QByteArray) else QByteArray()


def write_window(settings: QSettings, geometry: QByteArray) -> None:
    settings.setValue("window/geometry", geometry)


def read_page(settings: QSettings) -> str:
    """Reads the name of the page that was shown last, empty if none."""
    return str(settings.value("window/page", ""))


def write_page(settings: QSettings, page: str) -> None:
    settings.setValue("window/page", page)


def read_model(settings: QSettings) -> tuple[str, str | None] | None:
    """Reads the model that was loaded last, as an embedded model's id or a folder, and its adapter."""
    model, adapter = (settings.value(f"model/{name}") for name in ("last", "adapter"))
    if not _is_place(model):
        return None
    if model == _AUTO:
        return SMALL, None
    return str(model), str(adapter) if _is_place(adapter) else None


def _is_place(raw: object) -> bool:
    return isinstance(raw, str) and 0 < len(raw) <= LONGEST_PATH and "\0" not in raw


def write_model(settings: QSettings, model: str, adapter: str | None) -> None:
    settings.setValue("model/last", model)
    _write(settings, "model/adapter", adapter)


def read_loading(settings: QSettings) -> str:
    """Reads the model that was being loaded at a start when the app ended, if it ended during that."""
    return str(settings.value("model/loading", ""))


def write_loading(settings: QSettings, model: str | None) -> None:
    """Stores the model that is being loaded; synced to disk before returning, as the app may crash next."""
    _write(settings, "model/loading", model)
    settings.sync()


def user_settings() -> tuple[QSettings, str]:
    """Returns the user's settings and a message for the user; Windows and macOS have their own stores."""
    if sys.platform in ("win32", "darwin"):
        return QSettings("Safelight", "Safelight"), ""
    place = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericConfigLocation)
    return open_settings(Path(place) / "Safelight" / "Safelight.conf")


def open_settings(path: Path) -> tuple[QSettings, str]:
    """Opens the settings in a file. Returns them and a message for the user, empty if all is well."""
    said = ""
    try:
        private_folder(path.parent)
        settings = _opened(path)
        if settings.status() != QSettings.Status.NoError:
            aside = str(set_aside(path))
            settings = _opened(path)
            said = tr("Settings that could not be read are at their defaults. The file is kept as {path}.", path=aside)
    except (OSError, SafelightError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
        said = tr(
            "The settings in {path} cannot be used ({why}). Changes last until Safelight is closed.",
            path=str(path),
            why=why,
        )
        settings = _opened(path.with_name(f"{path.name}.{secrets.token_hex(4)}"), is_kept=False)
    return settings, said


def _opened(path: Path, *, is_kept: bool = True) -> QSettings:
    if is_kept and not os.path.lexists(path):  # QSettings would create it readable for everyone
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    tighten(path)
    return QSettings(str(path), QSettings.Format.IniFormat)
