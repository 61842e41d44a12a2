"""What people read of the ways of decoding, and which settings are whose. Without Qt; which a model has, it says."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings.spec import SAMPLER
from app.system.i18n import tr
from engine.config import BLOCK_DIFFUSION


@dataclass(frozen=True)
class DecoderWords:
    """Both untranslated; ``settings`` are names in ``SAMPLER``."""

    title: str
    explanation: str
    settings: tuple[str, ...]


_WORDS = {
    BLOCK_DIFFUSION: DecoderWords(
        "Block diffusion",
        "A block begins as noise, and all of its places are denoised together until they are sure.",
        (
            "entropy_bound",
            "t_max",
            "t_min",
            "max_denoising_steps",
            "stability_threshold",
            "confidence_threshold",
        ),
    ),
    "autoregressive": DecoderWords(
        "Autoregressive",
        "One token after the other, from left to right, a pass each. The embedded models were not trained to write so.",
        ("sampling_temperature", "sampling_top_k", "sampling_top_p"),
    ),
    "causal_parallel": DecoderWords(
        "Causal parallel (WeDLM)",
        "Masks ahead of the text are predicted together, and each pass writes those it is sure of.",
        ("window", "entropy_threshold", "distance_penalty", "sampling_temperature"),
    ),
    "masked_diffusion": DecoderWords(
        "Masked block diffusion",
        "A block begins as masks, and each pass writes the places it is sure of.",
        ("accept_probability", "sampling_temperature"),
    ),
    "self_speculation": DecoderWords(
        "Self-speculation",
        "A draft of several tokens is checked from left to right, and written as far as it holds.",
        (),
    ),
}
_OF_ONE = {name for words in _WORDS.values() for name in words.settings}


def decoder_title(name: str) -> str:
    """What a decoder is called; one that is not known here by its name."""
    words = _WORDS.get(name)
    return name.replace("_", " ").capitalize() if words is None else tr(words.title)


def decoder_explanation(name: str) -> str:
    """What it does in a sentence, empty for one that is not known here."""
    words = _WORDS.get(name)
    return "" if words is None else tr(words.explanation)


def settings_of(name: str) -> frozenset[str]:
    """The settings of the sampler that a decoder goes by; "" is block diffusion, one that is not known has all."""
    words = _WORDS.get(name or BLOCK_DIFFUSION)
    own = _OF_ONE if words is None else set(words.settings)
    return frozenset(setting.name for setting in SAMPLER if setting.name in own or setting.name not in _OF_ONE)
