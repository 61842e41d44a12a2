"""The preset, the three built-in ones, and validation. Knows neither Qt nor files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from app.settings.decoders import OWN_DECODING, DecodingChoice
from app.settings.spec import SAMPLER
from app.settings.values import SettingsValues
from app.system.i18n import tr

LONGEST_NAME = 60  # characters
LONGEST_PROMPT = 200_000
DEFAULT = "default"


@dataclass(frozen=True)
class Preset:
    """A named system prompt with sampler settings.

    ``overrides`` are pairs of a sampler setting's name and value, in the order of ``app.settings.spec.SAMPLER``;
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
        """Returns a copy with some fields changed."""
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
    number, found = 1, wanted
    while found.casefold() in used:
        number += 1
        found = f"{wanted[: LONGEST_NAME - 5]} {number}"
    return found
