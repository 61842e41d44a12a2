"""The settings of a generation, from the engine's declarations, and the user's overrides of a model's. Without Qt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.system.i18n import tr
from engine import GenerationConfig
from engine.config import LARGEST_SEED, is_decoder
from engine.decoders import ACCEPTANCE as RULES
from engine.decoders import BLOCK_DIFFUSION, BY_TOKEN, DECODERS
from engine.settings import Choice, Setting, Switch, declared


@dataclass(frozen=True)
class DecodingChoice:
    """The decoding of runs, by fields of ``GenerationConfig``.

    An empty ``decoder`` or ``acceptance`` is the model's own. A decoder that a model does not have counts as empty.
    """

    decoder: str = ""
    token_thoughts: bool = False
    acceptance: str = ""

    @staticmethod
    def read(stored: Mapping[str, object]) -> DecodingChoice:
        """Reads a stored choice, by name; unreadable fields count as missing.

        Earlier versions stored a decoder of thoughts and one of answers.
        """
        thought, answer = stored.get("thought_decoder"), stored.get("answer_decoder")
        decoder = next((name for name in (answer, stored.get("decoder")) if name and is_decoder(name)), "")
        by_token = stored.get("token_thoughts") in (True, "true") or thought == BY_TOKEN
        rule = str(stored.get("acceptance"))
        return DecodingChoice(
            str(decoder), by_token and decoder in ("", BLOCK_DIFFUSION), rule if rule in RULES else ""
        )

    @property
    def changes(self) -> dict[str, str | bool]:
        """Returns the fields that differ from the model's own decoding, by name."""
        own = asdict(OWN_DECODING)
        return {name: value for name, value in asdict(self).items() if value != own[name]}

    @property
    def settings(self) -> frozenset[str]:
        """Returns the names of the sampler settings that have an effect."""
        own = settings_of(self.decoder)
        if self.decoder not in ("", BLOCK_DIFFUSION):
            return own
        own |= {RULES[self.acceptance or next(iter(RULES))].threshold}
        return own | settings_of(BY_TOKEN) - {"thinking_tokens"} if self.token_thoughts else own

    def among(self, decoders: Sequence[str]) -> DecodingChoice:
        """Returns the choice as it works with a model that has these decoders, its own first.

        ``decoder`` is then named, unless the model has none."""
        decoder = self.decoder if self.decoder in decoders else next(iter(decoders), "")
        if decoder not in ("", BLOCK_DIFFUSION):
            return DecodingChoice(decoder)
        return replace(self, decoder=decoder, token_thoughts=self.token_thoughts and BY_TOKEN in decoders)


OWN_DECODING = DecodingChoice()
"""The model's own decoding."""


_OF_ONE = {name for entry in DECODERS.values() for name in entry.settings} | {rule.threshold for rule in RULES.values()}


def decoder_title(name: str) -> str:
    """Returns a decoder's title; an unknown decoder is titled by its name."""
    entry = DECODERS.get(name)
    return name.replace("_", " ").capitalize() if entry is None else tr(entry.title)


def decoder_explanation(name: str, decoders: Sequence[str] = ()) -> str:
    """Describes a decoder next to the others that a model has; empty for an unknown one."""
    entry = DECODERS.get(name)
    if entry is None:
        return ""
    more = tr(entry.remark) if entry.remark and BLOCK_DIFFUSION in decoders else ""
    return " ".join(filter(None, (tr(entry.explanation), more)))


def rule_title(rule: str) -> str:
    """Returns the title of an acceptance rule; an unknown one is titled by its name."""
    return tr(RULES[rule].title) if rule in RULES else rule


def settings_of(name: str) -> frozenset[str]:
    """Returns the names of the sampler settings that a decoder uses. "" is block diffusion; an unknown decoder uses
    all."""
    entry = DECODERS.get(name or BLOCK_DIFFUSION)
    own = _OF_ONE if entry is None else entry.settings
    return frozenset(name for name in SAMPLER if name in own or name not in _OF_ONE)


def changes_in_words(overrides: Mapping[str, float], decoding: DecodingChoice) -> str:
    """Returns the settings that differ from a model's defaults, in one line; empty if none does."""
    return " · ".join(_words(overrides, decoding))


def _words(overrides: Mapping[str, float], decoding: DecodingChoice) -> Iterator[str]:
    if decoding.decoder:
        yield f"{tr(DECODER.label)} {decoder_title(decoding.decoder)}"
    if decoding.token_thoughts:
        yield tr(TOKEN_THOUGHTS.label)
    if decoding.acceptance:
        yield f"{tr(ACCEPTANCE.label)} {rule_title(decoding.acceptance)}"
    for name, setting in SAMPLER.items():
        if name in overrides:
            yield f"{tr(setting.label)} {overrides[name]:,g}"


SAMPLER = declared(GenerationConfig, Setting)
"""By name, in the order in which files keep them."""
MAIN = tuple(sorted((name for name, one in SAMPLER.items() if one.rank), key=lambda name: SAMPLER[name].rank))
"""The settings that most people need, as the sampler shows them first; it folds the others."""
SEED = Setting(
    "Seed", "", "The same seed, settings and model give the same answer again.", 0, LARGEST_SEED, 1, name="seed"
)


VIEW = Choice(
    "Canvas view",
    "Raw shows the random tokens between steps; Calm shows the best guess at every place.",
    (("raw", "Raw"), ("calm", "Calm")),
    name="view",
)
DECODER, ACCEPTANCE = (declared(GenerationConfig, Choice)[name] for name in ("decoder", "acceptance"))
TOKEN_THOUGHTS = declared(GenerationConfig, Switch)["token_thoughts"]
PACE = Choice(
    "Pace",
    "At 1× a block takes two to four seconds, or longer if the model needs longer. "
    "Full speed shows each step as soon as it is computed.",
    (
        ("0.25", "0.25×"),
        ("0.5", "0.5×"),
        ("1", "1×"),
        ("2", "2×"),
        ("4", "4×"),
        ("inf", "Full speed"),
    ),
    name="pace",
)
REDUCED_MOTION = Switch("Reduced motion", "Changes appear at once, without fading.", name="reduced_motion")


DRAWN_SEED_HIGH = 999_999
"""Random seeds are short, so that people can copy them."""


def later_seed(seed: int, count: int) -> int:
    """Returns the seed ``count`` after ``seed``; wraps around to 0 after the largest."""
    return (seed + count) % (LARGEST_SEED + 1)


@dataclass
class SettingsValues:
    """The user's settings. ``overrides`` holds only values that differ from the model's defaults; with ``seed`` None
    each answer has a random one."""

    overrides: dict[str, float] = field(default_factory=dict)
    seed: int | None = None
    calm: bool = False
    reduced_motion: bool = False
    decoding: DecodingChoice = OWN_DECODING
    decoders: tuple[str, ...] = field(default=(), compare=False)  # the loaded model's decoders, its own first
    speed: float = 1.0  # playing speed of a shown block; ``FULL_SPEED`` is without delay

    @property
    def present_decoding(self) -> DecodingChoice:
        """Returns the decoding of the next run; its decoder is "" if no model names one."""
        return self.decoding.among(self.decoders)

    @property
    def view(self) -> str:
        """Returns ``calm`` as a value of the declared choice: "raw" or "calm"."""
        return "calm" if self.calm else "raw"

    @view.setter
    def view(self, value: str) -> None:
        self.calm = value == "calm"

    @property
    def pace(self) -> str:
        """Returns ``speed`` as a value of the declared choice."""
        return f"{self.speed:g}"

    @pace.setter
    def pace(self, value: str) -> None:
        self.speed = float(value)

    def value(self, name: str, defaults: GenerationConfig) -> float | None:
        value: float | None = self.overrides.get(name, getattr(defaults, name))
        return value

    def set(self, name: str, value: float | None, defaults: GenerationConfig) -> None:
        """Overrides a sampler setting; None or the model's default removes the override."""
        if value is None or value == getattr(defaults, name):
            self.overrides.pop(name, None)
        else:
            self.overrides[name] = value

    def config(self, defaults: GenerationConfig, decoders: Sequence[str] = ()) -> GenerationConfig:
        """Returns the settings of a run, those that its decoder uses; ``decoders`` are those of a part of the loaded
        model."""
        shared = [name for name in decoders if name in self.decoders]
        present = self.decoding.among(shared or decoders or self.decoders)
        own = present.settings
        changes: dict[str, Any] = {name: value for name, value in self.overrides.items() if name in own}
        if changes.get("t_max", defaults.t_min) < defaults.t_min:
            changes["t_min"] = changes["t_max"]
        if present.decoder == BLOCK_DIFFUSION != self.decoding.decoder:
            present = replace(present, decoder="")  # the model's own decoder stays empty
        return defaults.replace(**changes | present.changes)

    def next_seed(self, version: int = 0) -> int:
        """Returns the seed of the next answer: random, or the fixed one plus the version."""
        if self.seed is None:
            return random.randint(0, DRAWN_SEED_HIGH)
        return later_seed(self.seed, version)

    def reset(self) -> None:
        """Resets to the model's defaults and random seeds; the canvas settings stay."""
        self.overrides.clear()
        self.seed = None
        self.decoding = OWN_DECODING
