"""Presets: the three built-in ones, and the user's in one JSON file of the data folder. Knows no Qt.

The file is replaced atomically, so that a crash leaves the old or the new one. Several windows may write it: each
change is made to what is in the file then. A damaged file is set aside, and its readable presets are kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings.values import OWN_DECODING, SAMPLER, DecodingChoice, SettingsValues
from app.system.folders import set_aside, tighten
from app.system.i18n import tr
from app.system.locks import locked
from engine import SafelightError
from engine.files import count_signs, parse_json, private_folder, read_bytes, write_text

LONGEST_NAME = 60  # characters
LONGEST_PROMPT = 200_000
DEFAULT = "default"


@dataclass(frozen=True)
class Preset:
    """A named system prompt with sampler settings.

    ``overrides`` are pairs of a sampler setting's name and value, in the order of ``app.settings.values.SAMPLER``;
    the other settings are the model's defaults. ``think`` lets the model reason before it answers.
    """

    id: str
    name: str
    system_prompt: str = ""
    overrides: tuple[tuple[str, float], ...] = ()
    think: bool = False
    decoding: DecodingChoice = OWN_DECODING

    @property
    def is_built_in(self) -> bool:
        """True if the preset is built in, so that it can be neither changed nor deleted."""
        return self.id in BUILT_IN_IDS

    def with_values(self, values: SettingsValues) -> Preset:
        """Returns a copy that sets these values of the sampler."""
        return self.replace(overrides=overrides_in_order(values.overrides.items()), decoding=values.decoding)

    def replace(self, **changes: object) -> Preset:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def overrides_in_order(values: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Returns pairs of names and values in the order of declaration, with whole numbers as int."""
    given = dict(values)
    return tuple(
        (name, int(given[name]) if setting.is_whole else float(given[name]))
        for name, setting in SAMPLER.items()
        if name in given
    )


BUILT_IN_IDS = (DEFAULT, "careful", "quick")


def built_in() -> tuple[Preset, ...]:
    """Returns the built-in presets: the model's defaults, slower and more accurate, faster and less accurate."""
    return (
        Preset(DEFAULT, tr("Default")),
        Preset("careful", tr("Careful"), overrides=(("entropy_bound", 0.05), ("max_denoising_steps", 96))),
        Preset(
            "quick",
            tr("Quick"),
            overrides=(("entropy_bound", 0.2), ("max_denoising_steps", 24)),
            decoding=DecodingChoice(acceptance="entropy_bound_kept"),
        ),
    )


def problem(preset: Preset, taken: Iterable[str]) -> str:
    """Returns the reason why a preset cannot be saved, in one sentence; empty if it can.

    Args:
        taken: the names of the other presets.
    """
    name = preset.name.strip()
    if not name:
        return tr("The preset has no name. Write one.")
    if len(name) > LONGEST_NAME:
        return tr("The name is longer than {count} characters. Shorten it.", count=LONGEST_NAME)
    if name.casefold() in {other.strip().casefold() for other in taken}:
        return tr("There is another preset called “{name}”. Choose another name.", name=name)
    if len(preset.system_prompt) > LONGEST_PROMPT:
        return tr("The system prompt is longer than {count} characters. Shorten it.", count=f"{LONGEST_PROMPT:,}")
    return ""


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """Returns the wanted name, with a number appended if it is taken."""
    used = {name.strip().casefold() for name in taken}
    number, free = 1, wanted
    while free.casefold() in used:
        number += 1
        free = f"{wanted[: LONGEST_NAME - 5]} {number}"
    return free


FILE = "presets.json"
VERSION = 7
MAX_PRESETS = 500
MAX_PRESETS_BYTES = 2**21
MAX_VALUES = 100_000  # in the JSON; separators inside prompts count, too


class PresetStore:
    """The user's presets; ``problem`` is a sentence about a fault of the file, empty if there is none."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.problem = ""
        self.set_aside: Path | None = None
        self._locked = ""  # why the file must not be written
        self.own: tuple[Preset, ...] = ()  # the user's, in order
        try:
            self.own, _ = self._read()
        except SafelightError as error:
            self.problem = self._locked = str(error)
        if self.set_aside is not None and self.own:
            with contextlib.suppress(SafelightError):  # retried when a preset is changed
                self._change(lambda own: own)

    @property
    def presets(self) -> tuple[Preset, ...]:
        """The built-in presets, then the user's."""
        return (*built_in(), *self.own)

    def find(self, id: str) -> Preset:
        """Returns the preset with an id, or the default if it no longer exists."""
        return next((preset for preset in self.presets if preset.id == id), self.presets[0])

    def put(self, preset: Preset) -> None:
        """Saves a preset in place of the one with its id, or else at the end.

        Raises:
            SafelightError: it could not be written; the previous ones are kept.
        """
        self._change(lambda own: list(({one.id: one for one in own} | {preset.id: preset}).values()))

    def remove(self, id: str) -> None:
        """Removes a preset by its id. Raises as ``put``."""
        self._change(lambda own: [preset for preset in own if preset.id != id])

    def _change(self, change: Callable[[Sequence[Preset]], Sequence[Preset]]) -> None:
        """Changes the presets in the file; afterwards ``own`` includes what other windows have changed."""
        with self._writing():
            theirs, is_whole = self._read()
            changed = change(theirs if is_whole else self.own)
            if len(changed) > MAX_PRESETS:
                raise SafelightError(
                    tr(
                        "There are already {count} presets, the most that are kept. Delete one first.",
                        count=MAX_PRESETS,
                    )
                )
            text = json.dumps({"version": VERSION, "presets": [_as_json(preset) for preset in changed]}, indent=2)
            if len(text) >= MAX_PRESETS_BYTES or count_signs(text) > MAX_VALUES:
                raise SafelightError(tr("The presets are too long to save. Shorten the longest system prompt."))
            write_text(self.path, text + "\n", private=True)
        self.own = tuple(changed)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Creates the folder, and locks out other windows' writes."""
        if self._locked:
            raise SafelightError(self._locked)
        try:
            private_folder(self.path.parent)
            with locked(self.path.with_name(f"{FILE}.lock")):
                yield
        except (OSError, ValueError) as error:
            raise SafelightError(
                tr(
                    "The presets cannot be saved in {folder}: {reason}.",
                    folder=str(self.path.parent),
                    reason=_why(error),
                )
            ) from error

    def _read(self) -> tuple[tuple[Preset, ...], bool]:
        """Returns the readable presets of the file, and True if it exists and is undamaged. Sets a damaged one aside.

        Raises:
            SafelightError: the file must not be touched; the message says why.
        """
        try:
            data = read_bytes(self.path, MAX_PRESETS_BYTES)
        except FileNotFoundError:
            return (), False
        except (OSError, ValueError) as error:
            raise SafelightError(tr("{path} cannot be read: {why}.", path=str(self.path), why=_why(error))) from error
        except SafelightError:  # it is not a file, or too large
            return self._put_aside()
        try:
            raw = parse_json(data.decode("utf-8"), FILE, values=MAX_VALUES)
            version = raw["version"]
            entries = raw["presets"]
            if not isinstance(version, int) or not isinstance(entries, list):
                raise ValueError("it does not contain presets")
        except (SafelightError, ValueError, KeyError, TypeError):
            return self._put_aside()
        if version > VERSION:
            raise SafelightError(
                tr("{path} was written by a newer Safelight. Update to use the presets in it.", path=str(self.path))
            )
        presets: dict[str, Preset] = {}
        for entry in entries:
            preset = _from_json(entry)
            if preset is not None and preset.id not in presets and len(presets) < MAX_PRESETS:
                presets[preset.id] = preset
        if len(presets) < len(entries):
            return self._put_aside(tuple(presets.values()))
        tighten(self.path)
        return tuple(presets.values()), True

    def _put_aside(self, read: tuple[Preset, ...] = ()) -> tuple[tuple[Preset, ...], bool]:
        try:
            self.set_aside = set_aside(self.path)
        except OSError as error:
            raise SafelightError(
                tr(
                    "{path} is damaged and cannot be renamed ({reason}); repair or move it to change presets.",
                    path=str(self.path),
                    reason=_why(error),
                )
            ) from error
        self.problem = tr(
            "The presets were damaged. What could be read is here; the file is kept as {path}.",
            path=str(self.set_aside),
        )
        return read, False


def _why(error: Exception) -> str:
    return ((error.strerror if isinstance(error, OSError) else None) or type(error).__name__).lower()


def _as_json(preset: Preset) -> dict[str, object]:
    return {
        "id": preset.id,
        "name": _encodable(preset.name),
        "system_prompt": _encodable(preset.system_prompt),
        "overrides": dict(preset.overrides),
        "think": preset.think,
    } | preset.decoding.changes


def _encodable(text: str) -> str:
    """Returns a text without lone surrogates, which a text field accepts and UTF-8 does not."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _from_json(entry: object) -> Preset | None:
    """Reads the preset of an entry; None if it is not one. Settings out of bounds are left out."""
    if not isinstance(entry, dict):
        return None
    id, name = entry.get("id"), entry.get("name")
    if not isinstance(id, str) or not id or id in BUILT_IN_IDS or not isinstance(name, str) or not name.strip():
        return None
    if len(id) > LONGEST_NAME:
        return None
    prompt, raw, think = entry.get("system_prompt", ""), entry.get("overrides", {}), entry.get("think", False)
    pairs = raw.items() if isinstance(raw, dict) else ()
    return Preset(
        id,
        name[:LONGEST_NAME],
        prompt[:LONGEST_PROMPT] if isinstance(prompt, str) else "",
        overrides_in_order((key, value) for key, value in pairs if _is_in_bounds(key, value)),
        think is True,
        DecodingChoice.read(entry),
    )


def _is_in_bounds(name: object, value: object) -> bool:
    setting = SAMPLER.get(name) if isinstance(name, str) else None
    if setting is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return setting.low <= value <= setting.high and (not setting.is_whole or value == int(value))
