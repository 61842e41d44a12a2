"""Declarations of settings next to their bounds: words in the window, options in the terminal.

``steps: Annotated[int, whole(1, 100), Setting("Steps", …), CliOption("--steps", …)] = 48``. Knows no settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_type_hints


@dataclass(frozen=True)
class Declaration:
    """A statement about a setting."""

    name: str = field(default="", kw_only=True)  # the setting's, given by ``declared``


@dataclass(frozen=True)
class Setting(Declaration):
    """A number that people set, as its field shows it; texts are untranslated.

    Args:
        low, high, step, decimals: of the field, whose bounds may be tighter than those of the setting.
        none: the words for "no number"; empty if there always is one.
        rank: its place among the settings that are not folded, from 1; 0 is folded.
    """

    label: str
    unit: str
    explanation: str
    low: float
    high: float
    step: float
    decimals: int = 0
    none: str = ""
    rank: int = 0

    @property
    def is_whole(self) -> bool:
        return self.decimals == 0


@dataclass(frozen=True)
class Choice(Declaration):
    """A setting with a few values, each with its words."""

    label: str
    explanation: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Switch(Declaration):
    """A setting that is on or off."""

    label: str
    explanation: str


@dataclass(frozen=True)
class CliOption(Declaration):
    """A setting's option in the terminal, and its name among ``vllm_xargs`` without "diffusion_".

    Args:
        flag: as ``--top-k``.
        is_decoding: whether it stands among the options of decoders that do not begin with noise.
    """

    flag: str
    help: str
    xarg: str = ""
    is_decoding: bool = False


Declared = TypeVar("Declared", bound=Declaration)


def declared(settings: type[Any], what: type[Declared]) -> dict[str, Declared]:
    """Returns what is declared of the fields of a class of settings, by their names, in order."""
    return {
        name: replace(one, name=name)
        for name, hint in get_type_hints(settings, include_extras=True).items()
        for one in getattr(hint, "__metadata__", ())
        if isinstance(one, what)
    }
