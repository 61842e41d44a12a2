"""Changed settings in words. Without Qt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.settings.decoders import CHOICES, DecodingChoice, decoder_title, option_title
from app.settings.spec import ANSWER_DECODER, DECODER, RESCUE, SAMPLER, THOUGHT_DECODER, VERIFY
from app.system.i18n import tr


def changes_in_words(overrides: Mapping[str, float], decoding: DecodingChoice) -> str:
    """Returns the settings that differ from a model's defaults, in one line; empty if none does."""
    return " · ".join((*_decoding(decoding), *_numbers(overrides)))


def _decoding(decoding: DecodingChoice) -> Iterator[str]:
    names = (decoding.decoder, decoding.thought_decoder, decoding.answer_decoder)
    for declared, name in zip((DECODER, THOUGHT_DECODER, ANSWER_DECODER), names, strict=True):
        if name:
            yield f"{tr(declared.label)} {decoder_title(name)}"
    for choice in CHOICES:
        if value := decoding.changes.get(choice.name):
            yield f"{tr(choice.label)} {option_title(choice, str(value))}"
    for label, is_on in ((RESCUE, decoding.rescue), (VERIFY, decoding.verify)):
        if is_on:
            yield tr(label)


def _numbers(overrides: Mapping[str, float]) -> Iterator[str]:
    for setting in SAMPLER:
        if setting.name in overrides:
            yield f"{tr(setting.label)} {overrides[setting.name]:,g}"
