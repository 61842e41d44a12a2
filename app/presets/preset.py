"""What a preset is, the three that come with Safelight, and what is wrong with one. Knows neither Qt nor files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from app.settings.spec import SAMPLER
from app.settings.values import SettingsValues
from app.system.i18n import tr
from engine import GenerationConfig

LONGEST_NAME = 60  # characters
LONGEST_PROMPT = 200_000
DEFAULT = "default"


@dataclass(frozen=True)
class Preset:
    """A way of asking.

    ``overrides`` are pairs of a sampler setting's name and its value, in the order of ``app.settings.spec.SAMPLER``;
    what is not among them follows the model. ``think`` lets the model reason before it answers.
    """

    id: str
    name: str
    system_prompt: str = ""
    overrides: tuple[tuple[str, float], ...] = ()
    think: bool = False

    @property
    def is_built_in(self) -> bool:
        """Whether it comes with Safelight, and can be neither changed nor deleted."""
        return self.id in BUILT_IN_IDS

    def replace(self, **changes: object) -> Preset:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def overrides_in_order(values: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Pairs of names and values in the order the settings are declared in, whole numbers as such."""
    given = dict(values)
    return tuple(
        (setting.name, int(given[setting.name]) if setting.is_whole else float(given[setting.name]))
        for setting in SAMPLER
        if setting.name in given
    )


BUILT_IN_IDS = (DEFAULT, "careful", "quick")


def built_in() -> tuple[Preset, ...]:
    """The presets that are always there: as the model comes, slower and surer, faster and rougher."""
    return (
        Preset(DEFAULT, tr("Default")),
        Preset("careful", tr("Careful"), overrides=(("entropy_bound", 0.05), ("max_denoising_steps", 96))),
        Preset("quick", tr("Quick"), overrides=(("entropy_bound", 0.3), ("max_denoising_steps", 24))),
    )


def problem(preset: Preset, taken: Iterable[str], defaults: GenerationConfig) -> str:
    """Why a preset cannot be kept as it is, in one sentence; empty when it can.

    Args:
        taken: the names of the other presets.
        defaults: of the model that it would be used with.
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
    return SettingsValues(dict(preset.overrides)).problem(defaults)


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """The wanted name, with a number behind it where it is taken."""
    used = {name.strip().casefold() for name in taken}
    number, found = 1, wanted
    while found.casefold() in used:
        number += 1
        found = f"{wanted[: LONGEST_NAME - 5]} {number}"
    return found
