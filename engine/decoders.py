"""The decoders, their acceptance rules and their settings, each declared once. Knows no tensors.

``engine.decoding`` has the decoders' functions. ``engine.config.GenerationConfig`` has all of these settings as fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.declared import Flag, Share, one_of, real, whole
from engine.settings import Choice, CliOption, Setting, Switch

BLOCK_DIFFUSION = "block_diffusion"  # the decoder whose blocks begin as uniform noise
BY_TOKEN = "autoregressive"
MAX_PENALTY = 100  # of a repetition; checkpoints have 1.0 to 1.3
REMASKING = (
    "low_confidence_dynamic",
    "low_confidence_static",
    "sequential",
    "entropy_bounded",
    "random",
    "origin",
    "topk_margin",
    "entropy",
)
"""Rules, by their authors' names, for which masks of a block a pass writes."""

Ability = Literal[
    "forks",  # runs can be changed and run on
    "infills",  # spans of finished text can be written anew
    "measures",  # the influence of a token can be measured
    "decides",  # answers are read from a canvas, in one step
    "formats",  # an answer can be held to a format
    "calls freely",  # of those: a text in front of a call is written no slower than without the format
    "bounds thoughts",
    "grows",  # text grows from left to right: a block is a part of the text as recorded, and is never filled in
    "in order",  # of those: a token behind the other, so that a text can end within a block
]


@dataclass(frozen=True)
class DecoderEntry:
    """A decoder: what people read about it, untranslated, and what it can do.

    Args:
        settings: those that the window shows for it.
        remasking: the rules of ``REMASKING`` that it has.
        remark: shown where a model has block diffusion, too.
    """

    name: str
    title: str
    explanation: str
    settings: tuple[str, ...]
    abilities: frozenset[Ability]
    remasking: tuple[str, ...] = ()
    remark: str = ""


_CUT = ("sampling_temperature", "sampling_top_p")
DECODERS = {
    entry.name: entry
    for entry in (
        DecoderEntry(
            BLOCK_DIFFUSION,
            "Block diffusion",
            "A block begins as noise, and all of its places are denoised together until they are sure.",
            ("t_max", "max_denoising_steps"),
            frozenset({"forks", "infills", "measures", "decides", "formats", "calls freely"}),
        ),
        DecoderEntry(
            BY_TOKEN,
            "Autoregressive",
            "One token at a time, from left to right, one pass for each.",
            (*_CUT, "thinking_tokens"),
            frozenset({"formats", "calls freely", "bounds thoughts", "grows", "in order"}),
            remark="The models that come with Safelight were not trained for it.",
        ),
        DecoderEntry(
            "causal_parallel",
            "Causal parallel (WeDLM)",
            "Masks ahead of the text are predicted together, and each pass writes those it is sure of.",
            ("sampling_temperature",),
            frozenset({"grows"}),
        ),
        DecoderEntry(
            "block_causal",
            "Block-causal diffusion",
            "A block begins as masks and sees all of itself; each pass writes the places it is sure of, or a few of "
            "them.",
            ("max_denoising_steps", "accept_probability", *_CUT, "thinking_tokens"),
            frozenset({"forks", "decides", "formats", "bounds thoughts"}),
            REMASKING[:5],
        ),
        DecoderEntry(
            "masked_diffusion",
            "Masked block diffusion",
            "A block begins as masks, and each pass writes the places it is sure of.",
            ("accept_probability", "sampling_temperature", "thinking_tokens"),
            frozenset({"forks", "bounds thoughts"}),
        ),
        DecoderEntry(
            "bidirectional",
            "Bidirectional diffusion",
            "The whole answer begins as masks, and each step reads the prompt and all of it in both directions.",
            ("max_denoising_steps", *_CUT),
            frozenset({"forks", "infills", "measures", "decides", "formats"}),
            ("low_confidence_static", "low_confidence_dynamic", "random", "origin", "topk_margin", "entropy"),
        ),
        DecoderEntry(
            "sub_blocks",
            "Block diffusion by parts",
            "A block begins as masks. Each part of it is filled in turn, and each step writes the places it is sure "
            "of.",
            ("accept_probability", *_CUT, "thinking_tokens"),
            frozenset({"forks", "formats", "bounds thoughts"}),
        ),
        DecoderEntry(
            "self_speculation",
            "Self-speculation",
            "A draft of several tokens is checked from left to right, and written as far as it holds.",
            (*_CUT, "thinking_tokens"),
            frozenset({"bounds thoughts", "grows", "in order"}),
        ),
    )
}
"""The decoders by name. Their functions are ``decoding.generate.FUNCTIONS``."""
_GONE: dict[str, frozenset[Ability]] = {"drafting": frozenset({"grows"})}  # of earlier runs


def able(name: str, ability: Ability) -> bool:
    """Says if a decoder can do something; "" is block diffusion."""
    entry = DECODERS.get(name or BLOCK_DIFFUSION)
    return ability in (_GONE.get(name, ()) if entry is None else entry.abilities)


def decoders_that(ability: Ability) -> tuple[str, ...]:
    """Returns the names of the decoders that can do something."""
    return tuple(name for name, entry in DECODERS.items() if ability in entry.abilities)


@dataclass(frozen=True)
class AcceptanceRule:
    """A rule for which places of a canvas a step of block diffusion keeps; see ``decoding.acceptance``.

    Args:
        title: as people read it, untranslated.
        threshold: the setting with its number.
        keeps: whether an accepted place stays accepted to the canvas's last step.
        tried: the thresholds that ``safelight tune`` tries, as factors of the model's own; of a probability's distance
            to 1.
    """

    name: str
    title: str
    threshold: Literal["entropy_bound", "accept_probability"]
    keeps: bool
    tried: tuple[float, ...]


ACCEPTANCE = {
    rule.name: rule
    for rule in (
        AcceptanceRule("entropy_bound", "The surest of each step", "entropy_bound", False, (0.5, 2, 10)),
        AcceptanceRule("entropy_bound_kept", "The surest, for good", "entropy_bound", True, (0.5, 1, 2, 5, 8, 10)),
        AcceptanceRule(
            "confidence_threshold", "All likely ones, for good", "accept_probability", True, (3, 2, 1, 0.5, 0.3, 0.1)
        ),
    )
}
"""The acceptance rules by name; the first is the default. Kernels know a rule by its place."""


@dataclass(frozen=True)
class DenoisingSettings:
    """The settings of block diffusion; some other decoders have a few of them.

    Args:
        max_denoising_steps: most denoising steps a canvas may take.
        entropy_bound: budget of the acceptance rule, in nats; also that of the remasking "entropy_bounded".
        acceptance: which places of a canvas a step of block diffusion keeps, one of ``ACCEPTANCE``.
        t_max, t_min: temperature at the first and towards the last step.
        stability_threshold: how many earlier argmax canvases must equal the current one; 0 switches the test off.
        confidence_threshold: mean entropy (nats) under which a canvas counts as confident; 0 runs every step.
        stall_steps: a canvas of block diffusion ends once its mean entropy has not fallen for so many steps; 0 never
            ends it so. See ``StallWatch``.
        token_thoughts: whether blocks that begin in a thought are written token by token, and only the others by block
            diffusion. See ``decoding.autoregressive``.
    """

    entropy_bound: Annotated[
        float,
        real(0.0),
        Setting(
            "Entropy bound",
            "nats",
            "How unsure a token may be that a step keeps. Higher is faster, lower makes fewer mistakes.",
            0.0,
            20.0,
            0.05,
            3,
            rank=4,
        ),
        CliOption("--entropy-bound", "how unsure the tokens may be that a step keeps, in nats of entropy"),
    ] = 0.1
    acceptance: Annotated[
        str,
        one_of(tuple(ACCEPTANCE)),
        Choice(
            "Tokens to keep",
            "Which tokens of a block a step keeps. Keeping them for good takes fewer steps, but none is taken back.",
            (("", "The model's own"), *((rule.name, rule.title) for rule in ACCEPTANCE.values())),
        ),
        CliOption("--acceptance", f"which tokens of a canvas a step keeps: {', '.join(ACCEPTANCE)}", "sampler"),
    ] = next(iter(ACCEPTANCE))
    t_max: Annotated[
        float,
        real(0.0, exclusive=True),
        Setting(
            "Temperature",
            "",
            "How freely tokens are drawn at a block's first step. It falls towards the last step.",
            0.05,
            5.0,
            0.05,
            2,
            rank=2,
        ),
        CliOption("--t-max", "temperature at a canvas's first step"),
    ] = 0.8
    t_min: Annotated[float, real(0.0, exclusive=True), CliOption("--t-min", "temperature at a canvas's last step")] = (
        0.4
    )
    max_denoising_steps: Annotated[
        int,
        whole(1, 10_000),
        Setting(
            "Steps",
            "",
            "The most steps of a block. A block that is not finished by then is taken as it is.",
            1,
            1000,
            1,
            rank=1,
        ),
        CliOption("--max-steps", "most denoising steps a canvas may take", "max_steps"),
    ] = 48
    stability_threshold: Annotated[
        int,
        whole(0, 1_000),
        CliOption("--stability", "a canvas may end once its best guess is unchanged for N steps"),
    ] = 1
    confidence_threshold: Annotated[
        float, real(0.0), CliOption("--confidence", "a canvas may end once its mean entropy is below X nats")
    ] = 0.005
    stall_steps: Annotated[
        int,
        whole(0, 1_000),
        CliOption("--stall-steps", "end a canvas that has become no surer for N steps; 0 never does", "stall_steps"),
    ] = 0
    token_thoughts: Annotated[
        Flag,
        Switch(
            "Think token by token",
            "Thinking is written from left to right, and the answer behind it by block diffusion.",
        ),
        CliOption(
            "--token-thoughts",
            "write thoughts token by token, and the answer behind them by block diffusion",
            is_decoding=True,
        ),
    ] = False

    def temperature(self, step: int) -> float:
        """Returns the temperature of a denoising step (0 upward): linear in the steps that remain."""
        remaining = self.max_denoising_steps - step
        return self.t_min + (self.t_max - self.t_min) * (remaining / self.max_denoising_steps)


@dataclass(frozen=True)
class SamplingSettings:
    """The drawing of a token by a decoder other than block diffusion; block diffusion has the cuts as well.

    The decoder fixes the order of the cuts and the temperature; see ``decoding.sampling``. Block diffusion cuts first,
    so that its entropy and what is fed back are those of the tokens left.

    Args:
        sampling_temperature: 0 takes the likeliest.
        sampling_top_k, sampling_top_p: which tokens may be drawn; 0 and 1 leave the distribution as it is.
        sampling_min_p: least probability of a token, as a share of the likeliest token's; 0 leaves all.
        repetition_penalty: applied first, to the logit of each token that stands in the prompt or the text: a logit
            above 0 is divided by it, another multiplied. 1 changes nothing. Not in block diffusion.
    """

    sampling_temperature: Annotated[
        float,
        real(0.0),
        Setting(
            "Sampling temperature",
            "",
            "How freely tokens are drawn; 0 always takes the likeliest.",
            0.0,
            5.0,
            0.05,
            2,
            rank=3,
        ),
        CliOption("--temperature", "how freely tokens are drawn; 0 takes the likeliest", is_decoding=True),
    ] = 0.0
    sampling_top_k: Annotated[
        int,
        whole(0, 2**21),
        CliOption("--top-k", "draw among the N likeliest tokens; 0 allows all", is_decoding=True),
    ] = 0
    sampling_top_p: Annotated[
        float,
        real(0.0, 1.0, exclusive=True),
        Setting(
            "Top-p",
            "",
            "Draws from the likeliest tokens that have this probability together; 1 draws from all.",
            0.01,
            1.0,
            0.01,
            2,
        ),
        CliOption("--top-p", "draw among the likeliest tokens that have this probability together", is_decoding=True),
    ] = 1.0
    sampling_min_p: Annotated[
        Share,
        CliOption("--min-p", "draw among tokens with this share of the likeliest one's probability", is_decoding=True),
    ] = 0.0
    repetition_penalty: Annotated[
        float,
        real(0.0, MAX_PENALTY, exclusive=True),
        CliOption(
            "--repetition-penalty",
            "above 1 makes tokens of prompt and text less likely to be drawn again",
            is_decoding=True,
        ),
    ] = 1.0

    @property
    def cuts(self) -> bool:
        """True if unlikely tokens are never drawn."""
        return self.sampling_top_k > 0 or self.sampling_top_p < 1.0 or self.sampling_min_p > 0.0


@dataclass(frozen=True)
class MaskSettings:
    """The rules by which decoders with masks write one.

    Args:
        entropy_threshold: nats under which causal parallel decoding writes a mask; the lowest always is.
        accept_probability: probability from which a mask is written in masked block diffusion; the likeliest always is.
            In block-causal decoding and that by sub-blocks it must be above that. Also that of the acceptance
            "confidence_threshold".
        remasking: which masks of a block a pass of block-causal decoding writes, one of ``REMASKING``; see
            ``decoding.block_causal``.
        edit_probability: probability above which block-causal decoding replaces a written token by another; 1 never.
    """

    entropy_threshold: Annotated[
        float,
        real(0.0),
        CliOption(
            "--entropy-threshold", "write masks with a lower entropy, in nats (causal parallel)", is_decoding=True
        ),
    ] = 0.4
    accept_probability: Annotated[
        float,
        real(0.0, 1.0),
        Setting(
            "Probability to accept",
            "",
            "A place is written once its likeliest token has this probability; the surest always is.",
            0.0,
            1.0,
            0.01,
            2,
        ),
        CliOption(
            "--accept-probability",
            "write places whose likeliest token has this probability (masked, block-causal, --acceptance)",
            is_decoding=True,
        ),
    ] = 0.9
    remasking: Annotated[
        str,
        one_of(REMASKING),
        CliOption(
            "--remasking",
            f"which masks a pass writes (block-causal, bidirectional): {', '.join(REMASKING)}",
            is_decoding=True,
        ),
    ] = REMASKING[0]
    edit_probability: Annotated[
        Share,
        CliOption(
            "--edit-probability",
            "replace written tokens by others above this probability (block-causal, LLaDA2.1)",
            is_decoding=True,
        ),
    ] = 1.0
