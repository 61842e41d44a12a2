"""The names and descriptions of the decoders, and the settings that each uses. Without Qt. The model lists its
decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from app.settings.spec import ACCEPTANCE, SAMPLER
from app.system.i18n import tr
from engine.config import ACCEPTANCE as RULES
from engine.config import BLOCK_DIFFUSION, THRESHOLD_OF, is_decoder
from engine.decoding.names import BOUNDING, BY_TOKEN


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
        rule = stored.get("acceptance")
        return DecodingChoice(
            str(decoder), by_token and decoder in ("", BLOCK_DIFFUSION), str(rule) if rule in RULES else ""
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
        own |= {THRESHOLD_OF[self.acceptance or RULES[0]]}
        return own | settings_of(BY_TOKEN) - {_THINKING} if self.token_thoughts else own

    def among(self, decoders: Sequence[str]) -> DecodingChoice:
        """Returns the choice as it works with a model that has these decoders, its own first.

        ``decoder`` is then named, unless the model has none."""
        decoder = self.decoder if self.decoder in decoders else next(iter(decoders), "")
        if decoder not in ("", BLOCK_DIFFUSION):
            return DecodingChoice(decoder)
        return replace(self, decoder=decoder, token_thoughts=self.token_thoughts and BY_TOKEN in decoders)


OWN_DECODING = DecodingChoice()
"""The model's own decoding."""


@dataclass(frozen=True)
class DecoderWords:
    """The texts about a decoder, untranslated; ``settings`` are names in ``SAMPLER``."""

    title: str
    explanation: str
    settings: tuple[str, ...]
    diffusion_remark: str = ""  # a remark that is shown if the model has block diffusion, too


_DRAWING = ("sampling_temperature", "sampling_top_p")
_WORDS = {
    BLOCK_DIFFUSION: DecoderWords(
        "Block diffusion",
        "A block begins as noise, and all of its places are denoised together until they are sure.",
        ("t_max", "max_denoising_steps"),
    ),
    "autoregressive": DecoderWords(
        "Autoregressive",
        "One token at a time, from left to right, one pass for each.",
        _DRAWING,
        "The models that come with Safelight were not trained for it.",
    ),
    "causal_parallel": DecoderWords(
        "Causal parallel (WeDLM)",
        "Masks ahead of the text are predicted together, and each pass writes those it is sure of.",
        ("sampling_temperature",),
    ),
    "masked_diffusion": DecoderWords(
        "Masked block diffusion",
        "A block begins as masks, and each pass writes the places it is sure of.",
        ("accept_probability", "sampling_temperature"),
    ),
    "self_speculation": DecoderWords(
        "Self-speculation",
        "A draft of several tokens is checked from left to right, and written as far as it holds.",
        _DRAWING,
    ),
    "block_causal": DecoderWords(
        "Block-causal diffusion",
        "A block begins as masks and sees all of itself; each pass writes the places it is sure of, or a few of them.",
        ("max_denoising_steps", "accept_probability", *_DRAWING),
    ),
    "bidirectional": DecoderWords(
        "Bidirectional diffusion",
        "The whole answer begins as masks, and each step reads the prompt and all of it in both directions.",
        ("max_denoising_steps", *_DRAWING),
    ),
    "sub_blocks": DecoderWords(
        "Block diffusion by parts",
        "A block begins as masks. Each part of it is filled in turn, and each step writes the places it is sure of.",
        ("accept_probability", *_DRAWING),
    ),
}
_THINKING = "thinking_tokens"
_OF_ONE = {_THINKING, *THRESHOLD_OF.values()} | {name for words in _WORDS.values() for name in words.settings}


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


def rule_title(rule: str) -> str:
    """Returns the title of an acceptance rule; an unknown one is titled by its name."""
    return tr(dict(ACCEPTANCE.options).get(rule, rule))


def settings_of(name: str) -> frozenset[str]:
    """Returns the names of the sampler settings that a decoder uses. "" is block diffusion; an unknown decoder uses
    all."""
    words = _WORDS.get(name or BLOCK_DIFFUSION)
    own = _OF_ONE if words is None else {*words.settings, *([_THINKING] if name in BOUNDING else [])}
    return frozenset(setting.name for setting in SAMPLER if setting.name in own or setting.name not in _OF_ONE)
