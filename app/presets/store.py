"""Keeps the user's presets in one JSON file of the data folder. Knows no Qt.

The file is replaced as a whole, so that a crash leaves the old one or the new one. A damaged file is copied aside
before anything is written over it, and what can be read of it is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.language import tr
from app.presets.preset import BUILT_IN_IDS, Preset, built_in, overrides_in_order
from app.settings.spec import SAMPLER
from engine import SafelightError

FILE = "presets.json"
VERSION = 1
_SETTINGS = {setting.name: setting for setting in SAMPLER}


class PresetStore:
    """The user's presets; ``problem`` says in a sentence what was wrong with the file, if anything was."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.problem = ""
        self.set_aside: Path | None = None
        self._locked = ""  # why the file must not be written
        self._own = self._read()
        if self.set_aside is not None:
            with contextlib.suppress(SafelightError):  # the file is put aside once more then, at the next start
                self.write(self._own)

    @property
    def own(self) -> tuple[Preset, ...]:
        """Those the user made, in their order."""
        return self._own

    @property
    def presets(self) -> tuple[Preset, ...]:
        """Those that come with Safelight, then the user's."""
        return (*built_in(), *self._own)

    def find(self, id: str) -> Preset:
        """The preset of an id, or the default where there is none of it any more."""
        return next((preset for preset in self.presets if preset.id == id), self.presets[0])

    def write(self, own: Sequence[Preset]) -> None:
        """Keep these presets in place of the user's present ones.

        Raises:
            SafelightError: they could not be written; those before are still there.
        """
        if self._locked:
            raise SafelightError(self._locked)
        text = json.dumps({"version": VERSION, "presets": [_as_json(preset) for preset in own]}, indent=2)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _replace(self.path, text + "\n")
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            raise SafelightError(
                tr("The presets cannot be saved in {folder}: {reason}.", folder=str(self.path.parent), reason=reason)
            ) from error
        self._own = tuple(own)

    def _read(self) -> tuple[Preset, ...]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            self._lock(tr("{path} cannot be read: {reason}.", path=str(self.path), reason=reason))
            return ()
        try:
            raw = json.loads(data.decode("utf-8"))
            version = raw["version"]
            entries = raw["presets"]
            if not isinstance(version, int) or not isinstance(entries, list):
                raise ValueError("it is not laid out as presets are")
        except (ValueError, KeyError, TypeError, RecursionError):
            self._put_aside()
            return ()
        if version > VERSION:
            self._lock(
                tr("{path} was written by a newer Safelight. Update to use the presets in it.", path=str(self.path))
            )
            return ()
        found: dict[str, Preset] = {}
        for entry in entries:
            preset = _from_json(entry)
            if preset is not None and preset.id not in found:
                found[preset.id] = preset
        if len(found) < len(entries) or any(_as_json(found[e["id"]]) != e for e in entries):
            self._put_aside()
        return tuple(found.values())

    def _lock(self, reason: str) -> None:
        self.problem = self._locked = reason

    def _put_aside(self) -> None:
        """Copy the damaged file under another name; where that cannot be done nothing is written over it."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        target = self.path.with_name(f"presets.damaged-{stamp}.json")
        number = 1
        while target.exists():
            number += 1
            target = self.path.with_name(f"presets.damaged-{stamp}-{number}.json")
        try:
            shutil.copy2(self.path, target)
        except OSError as error:
            reason = (error.strerror or type(error).__name__).lower()
            self._lock(
                tr(
                    "{path} is damaged and cannot be copied aside ({reason}); repair or move it to change presets.",
                    path=str(self.path),
                    reason=reason,
                )
            )
            return
        self.set_aside = target
        self.problem = tr(
            "The presets were damaged. What could be read is here; the file is kept as {path}.", path=str(target)
        )


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is either the old one or the whole new one."""
    handle, name = tempfile.mkstemp(prefix=".presets-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _as_json(preset: Preset) -> dict[str, object]:
    return {
        "id": preset.id,
        "name": preset.name,
        "system_prompt": preset.system_prompt,
        "overrides": dict(preset.overrides),
        "think": preset.think,
    }


def _from_json(entry: object) -> Preset | None:
    """What can be read of an entry; None where it is not a preset. Settings out of their bounds are left out."""
    if not isinstance(entry, dict):
        return None
    id, name = entry.get("id"), entry.get("name")
    if not isinstance(id, str) or not id or id in BUILT_IN_IDS or not isinstance(name, str) or not name.strip():
        return None
    prompt, raw, think = entry.get("system_prompt", ""), entry.get("overrides", {}), entry.get("think", False)
    pairs = raw.items() if isinstance(raw, dict) else ()
    return Preset(
        id,
        name,
        prompt if isinstance(prompt, str) else "",
        overrides_in_order((key, value) for key, value in pairs if _is_in_bounds(key, value)),
        think is True,
    )


def _is_in_bounds(name: object, value: object) -> bool:
    setting = _SETTINGS.get(name) if isinstance(name, str) else None
    if setting is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return setting.low <= value <= setting.high and (not setting.is_whole or value == int(value))
