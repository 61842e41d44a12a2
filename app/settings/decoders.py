"""The names and descriptions of the decoders, and the settings that each uses. Without Qt. The model lists its
decoders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from app.settings.spec import ACCEPTANCE, DECODER, SAMPLER, TOKEN_THOUGHTS
from app.system.i18n import tr
from engine.config import is_decoder
from engine.decoders import ACCEPTANCE as RULES
from engine.decoders import BLOCK_DIFFUSION, BY_TOKEN, DECODERS


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
