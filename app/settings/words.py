"""Changed settings in words. Without Qt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.settings.decoders import DecodingChoice, decoder_title, rule_title
from app.settings.spec import ACCEPTANCE, DECODER, SAMPLER, TOKEN_THOUGHTS
from app.system.i18n import tr


def changes_in_words(overrides: Mapping[str, float], decoding: DecodingChoice) -> str:
    """Returns the settings that differ from a model's defaults, in one line; empty if none does."""
    return " · ".join((*decoding_words(decoding), *_numbers(overrides)))


def decoding_words(decoding: DecodingChoice) -> Iterator[str]:
    """Yields what differs from the model's own decoding."""
    if decoding.decoder:
        yield f"{tr(DECODER.label)} {decoder_title(decoding.decoder)}"
    if decoding.token_thoughts:
        yield tr(TOKEN_THOUGHTS)
    if decoding.acceptance:
        yield f"{tr(ACCEPTANCE.label)} {rule_title(decoding.acceptance)}"


def _numbers(overrides: Mapping[str, float]) -> Iterator[str]:
    for name, setting in SAMPLER.items():
        if name in overrides:
            yield f"{tr(setting.label)} {overrides[name]:,g}"
