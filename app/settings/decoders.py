"""The names and descriptions of the decoders, and the settings that each uses. Without Qt. The model lists its
decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.settings.spec import ACCEPTANCE, BLOCK_CACHE, REMASKING, SAMPLER, Choice
from app.system.i18n import tr
from engine.config import ACCEPTANCE as RULES
from engine.config import BLOCK_CACHES, BLOCK_DIFFUSION, REMASKING_OF, is_decoder
from engine.decoding.names import BOUNDING, MIXABLE

BLOCK_CAUSAL, BIDIRECTIONAL = "block_causal", "bidirectional"
CHOICES: Mapping[Choice, Mapping[str, Sequence[str]]] = {
    ACCEPTANCE: {BLOCK_DIFFUSION: RULES},
    REMASKING: REMASKING_OF,
    BLOCK_CACHE: {BIDIRECTIONAL: BLOCK_CACHES[1:], "sub_blocks": BLOCK_CACHES[2:]},
}
"""Choices of a decoder: each one's values, by the decoders that have it; "" is the model's own."""


@dataclass(frozen=True)
class DecodingChoice:
    """The decoding of runs, by fields of ``GenerationConfig``.

    An empty ``decoder`` is the model's own; an empty ``thought_decoder`` or ``answer_decoder`` is ``decoder``. A
    decoder that a model does not have counts as empty.
    """

    decoder: str = ""
    thought_decoder: str = ""
    answer_decoder: str = ""
    rescue: bool = False
    verify: bool = False
    acceptance: str = ""
    remasking: str = ""
    block_cache: str = ""

    @staticmethod
    def read(stored: Mapping[str, object]) -> DecodingChoice:
        """Reads a stored choice, by name; unreadable fields count as missing."""
        names = {name: stored.get(name) for name in ("decoder", "thought_decoder", "answer_decoder")}
        known = {name: str(value) for name, value in names.items() if is_decoder(value)}
        for choice in CHOICES:
            if (value := stored.get(choice.name)) in [known for known, _ in choice.options]:
                known[choice.name] = str(value)
        return DecodingChoice(**known, rescue=stored.get("rescue") is True, verify=stored.get("verify") is True)

    @property
    def changes(self) -> dict[str, str | bool]:
        """Returns the fields that differ from the model's own decoding, by name."""
        own = asdict(OWN_DECODING)
        return {name: value for name, value in asdict(self).items() if value != own[name]}

    @property
    def names(self) -> tuple[str, str]:
        """Returns the decoder of thoughts and the decoder of everything else."""
        return self.thought_decoder or self.decoder, self.answer_decoder or self.decoder

    @property
    def denoises(self) -> bool:
        """True if blocks may be denoised, so that they can be verified and rescued."""
        return any(name in ("", BLOCK_DIFFUSION) for name in self.names)

    @property
    def settings(self) -> frozenset[str]:
        """Returns the names of the sampler settings that have an effect."""
        of_each = [settings_of(name) for name in self.names]
        own = frozenset[str]().union(*of_each)
        for name in {*self.names} & REMASKING_OF.keys():
            own |= _OF_REMASKING.get(self.remasking or REMASKING_OF[name][0], frozenset())
        if self.denoises:
            own |= _OF_ACCEPTANCE[self.acceptance or RULES[0]]
        if self.rescue and self.denoises:
            own |= settings_of("autoregressive") | {_RESCUE}
        if self.verify and self.denoises:
            own |= _VERIFY
        return own if all(_THINKING in settings for settings in of_each) else own - {_THINKING}

    def among(self, decoders: Sequence[str]) -> DecodingChoice:
        """Returns the choice as it works with a model that has these decoders, its own first.

        ``decoder`` is then named, unless the model has none."""
        decoder = self.decoder if self.decoder in decoders else next(iter(decoders), "")
        chosen: dict[str, Any] = {choice.name: self.of(choice, decoder) for choice in CHOICES}
        if not can_mix(decoders):
            return DecodingChoice(decoder, **chosen)
        thought, answer = (name if name in MIXABLE else "" for name in (self.thought_decoder, self.answer_decoder))
        found = DecodingChoice(decoder, thought, answer, self.rescue, self.verify, **chosen)
        return found if found.denoises else replace(found, rescue=False, verify=False)

    def of(self, choice: Choice, decoder: str) -> str:
        """Returns the value of one of ``CHOICES`` as it works with a decoder."""
        value: str = getattr(self, choice.name)
        return value if value in CHOICES[choice].get(decoder, ()) else ""


OWN_DECODING = DecodingChoice()
"""The model's own decoding."""


def can_mix(decoders: Sequence[str]) -> bool:
    """True if a model with these decoders can use two of them in one run."""
    return set(MIXABLE) <= set(decoders)


@dataclass(frozen=True)
class DecoderWords:
    """The texts about a decoder, untranslated; ``settings`` are names in ``SAMPLER``."""

    title: str
    explanation: str
    answers: str  # a sentence on how answers develop
    settings: tuple[str, ...]
    diffusion_remark: str = ""  # a remark that is shown if the model has block diffusion, too


_DRAWING = ("sampling_temperature", "sampling_top_k", "sampling_top_p", "sampling_min_p", "repetition_penalty")
_STALLING = ("stall_steps", "stall_fall", "second_tries")
_WORDS = {
    BLOCK_DIFFUSION: DecoderWords(
        "Block diffusion",
        "A block begins as noise, and all of its places are denoised together until they are sure.",
        "Answers begin as noise, and all of their places develop at once.",
        (
            "t_max",
            "t_min",
            "max_denoising_steps",
            "stability_threshold",
            "confidence_threshold",
            *_STALLING,
        ),
    ),
    "autoregressive": DecoderWords(
        "Autoregressive",
        "One token at a time, from left to right, one pass for each.",
        "Answers are written from left to right, one token at a time.",
        _DRAWING,
        "The models that come with Safelight were not trained for it.",
    ),
    "causal_parallel": DecoderWords(
        "Causal parallel (WeDLM)",
        "Masks ahead of the text are predicted together, and each pass writes those it is sure of.",
        "Answers are written from left to right, several tokens at a time.",
        ("window", "entropy_threshold", "distance_penalty", "sampling_temperature", "repetition_penalty"),
    ),
    "masked_diffusion": DecoderWords(
        "Masked block diffusion",
        "A block begins as masks, and each pass writes the places it is sure of.",
        "Answers are written a block at a time, the surest places first.",
        ("accept_probability", "sampling_temperature", "repetition_penalty"),
    ),
    "self_speculation": DecoderWords(
        "Self-speculation",
        "A draft of several tokens is checked from left to right, and written as far as it holds.",
        "Answers are drafted several tokens at a time, and written as far as the draft holds.",
        _DRAWING,
    ),
    BLOCK_CAUSAL: DecoderWords(
        "Block-causal diffusion",
        "A block begins as masks and sees all of itself; each pass writes the places it is sure of, or a few of them.",
        "Answers are written a block at a time, the surest places first.",
        ("max_denoising_steps", "edit_probability", *_DRAWING),
    ),
    BIDIRECTIONAL: DecoderWords(
        "Bidirectional diffusion",
        "The whole answer begins as masks, and each step reads the prompt and all of it in both directions.",
        "Answers begin as masks, and each step writes a few of their places, the surest first.",
        ("max_denoising_steps", *_DRAWING),
    ),
    "sub_blocks": DecoderWords(
        "Block diffusion by parts",
        "A block begins as masks. Each part of it is filled in turn, and each step writes the places it is sure of.",
        "Answers are written a part of a block at a time, the surest places first.",
        ("accept_probability", *_DRAWING),
    ),
}
_OF_REMASKING = {
    "low_confidence_dynamic": frozenset({"accept_probability"}),
    "entropy_bounded": frozenset({"entropy_bound"}),
}
_OF_ACCEPTANCE = {
    "entropy_bound": frozenset({"entropy_bound"}),
    "entropy_bound_kept": frozenset({"entropy_bound"}),
    "confidence_threshold": frozenset({"accept_probability"}),
    "margin": frozenset({"entropy_bound", "margin"}),
}
_RESCUE, _THINKING = "rescue_probability", "thinking_tokens"
_VERIFY = frozenset({"verify_probability", "verify_rewrites"})
_OF_ONE = {_RESCUE, _THINKING, *_VERIFY, *frozenset[str]().union(*_OF_ACCEPTANCE.values())} | {
    name for words in _WORDS.values() for name in words.settings
}


def decoder_title(name: str) -> str:
    """Returns a decoder's title; an unknown decoder is titled by its name."""
    words = _WORDS.get(name)
    return name.replace("_", " ").capitalize() if words is None else tr(words.title)


def decoder_explanation(name: str, decoders: Sequence[str] = ()) -> str:
    """Describes a decoder next to the others that a model has; empty for an unknown one."""
    words = _WORDS.get(name)
    if words is None:
        return ""
    more = tr(words.diffusion_remark) if words.diffusion_remark and BLOCK_DIFFUSION in decoders else ""
    return " ".join(filter(None, (tr(words.explanation), more)))


def answers_in_words(name: str) -> str:
    """Describes in a sentence how answers develop with a decoder; empty for an unknown one."""
    words = _WORDS.get(name)
    return "" if words is None else tr(words.answers)


def options_of(choice: Choice, decoder: str) -> list[tuple[str, str]]:
    """Returns the values of one of ``CHOICES`` that a decoder has, and their titles; none if it has no choice."""
    values = CHOICES[choice].get(decoder, ())
    return [(value, tr(title)) for value, title in choice.options if value in ("", *values)] if values else []


def option_title(choice: Choice, value: str) -> str:
    """Returns the title of a value; an unknown one is titled by its name."""
    return tr(dict(choice.options).get(value, value))


def settings_of(name: str) -> frozenset[str]:
    """Returns the names of the sampler settings that a decoder uses. "" is block diffusion; an unknown decoder uses
    all."""
    words = _WORDS.get(name or BLOCK_DIFFUSION)
    own = _OF_ONE if words is None else {*words.settings, *([_THINKING] if name in BOUNDING else [])}
    return frozenset(setting.name for setting in SAMPLER if setting.name in own or setting.name not in _OF_ONE)
