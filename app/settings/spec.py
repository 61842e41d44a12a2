"""The settings of a generation, declared once as data; widgets, storage and checks are derived. Without Qt."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import LARGEST_SEED, MOST_REWRITES, MOST_TRIES


@dataclass(frozen=True)
class Setting:
    """A number of ``GenerationConfig``; its default comes from the loaded model."""

    name: str
    label: str
    unit: str
    explanation: str
    low: float
    high: float
    step: float
    decimals: int = 0
    none: str = ""  # the words for "no number"; empty if there always is one

    @property
    def is_whole(self) -> bool:
        return self.decimals == 0


SAMPLER = (
    Setting(
        "entropy_bound",
        "Boldness",
        "nats",
        "How many unsure tokens a step keeps (the entropy bound). Higher is faster, lower makes fewer mistakes.",
        0.0,
        20.0,
        0.05,
        3,
    ),
    Setting(
        "t_max",
        "Temperature",
        "",
        "How freely tokens are drawn at a block's first step. It falls towards the last step.",
        0.05,
        5.0,
        0.05,
        2,
    ),
    Setting(
        "t_min",
        "Temperature at the end",
        "",
        "How freely tokens are drawn at a block's last step.",
        0.05,
        5.0,
        0.05,
        2,
    ),
    Setting(
        "max_denoising_steps",
        "Steps",
        "",
        "The most steps of a block. A block that is not finished by then is taken as it is.",
        1,
        1000,
        1,
    ),
    Setting(
        "stability_threshold",
        "Stability",
        "steps",
        "A block may end once its best guess is unchanged for this many steps.",
        0,
        100,
        1,
    ),
    Setting(
        "confidence_threshold",
        "Confidence",
        "nats",
        "A block may end once its mean entropy is below this; 0 takes every step.",
        0.0,
        10.0,
        0.001,
        4,
    ),
    Setting(
        "stall_steps",
        "Stalled after",
        "steps",
        "A block ends once it has become no surer for this many steps; 0 lets it take all of its steps.",
        0,
        1000,
        1,
    ),
    Setting(
        "stall_fall",
        "Least progress",
        "",
        "By which share its mean entropy must fall in that time, or the block counts as stalled.",
        0.0,
        1.0,
        0.05,
        2,
    ),
    Setting(
        "second_tries",
        "Second tries",
        "tries",
        "How often a stalled block begins again, within its steps; the surest try is taken. Above 0, you cannot fork "
        "the run later.",
        0,
        MOST_TRIES,
        1,
    ),
    Setting(
        "sampling_temperature",
        "Sampling temperature",
        "",
        "How freely tokens are drawn; 0 always takes the likeliest.",
        0.0,
        5.0,
        0.05,
        2,
    ),
    Setting(
        "sampling_top_k",
        "Top-k",
        "tokens",
        "Draws from this many of the likeliest tokens only; 0 draws from all.",
        0,
        1000,
        1,
    ),
    Setting(
        "sampling_top_p",
        "Top-p",
        "",
        "Draws from the likeliest tokens that have this probability together; 1 draws from all.",
        0.01,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "sampling_min_p",
        "Min-p",
        "",
        "Draws from tokens with at least this share of the likeliest one's probability; 0 draws from all.",
        0.0,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "repetition_penalty",
        "Repetition penalty",
        "",
        "Makes tokens less likely that the prompt or the text already has; 1 changes nothing.",
        0.5,
        2.0,
        0.05,
        2,
    ),
    Setting(
        "window",
        "Window",
        "masks",
        "How many places ahead of the text are predicted at once.",
        1,
        1024,
        1,
    ),
    Setting(
        "entropy_threshold",
        "Entropy threshold",
        "nats",
        "A place is written once its entropy is below this; the surest always is.",
        0.0,
        10.0,
        0.05,
        3,
    ),
    Setting(
        "distance_penalty",
        "Distance penalty",
        "nats",
        "Added to a place's entropy for each place to its left, so that the left is written first.",
        0.0,
        1.0,
        0.01,
        3,
    ),
    Setting(
        "accept_probability",
        "Probability to accept",
        "",
        "A place is written once its likeliest token has this probability; the surest always is.",
        0.0,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "margin",
        "Lead",
        "",
        "A block is finished once the likeliest tokens lead the second ones by this much on average, as logits.",
        0.0,
        60.0,
        0.5,
        1,
    ),
    Setting(
        "edit_probability",
        "Probability to rewrite",
        "",
        "A written token is replaced if another one is more probable than this; 1 replaces none. For LLaDA2.1.",
        0.0,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "rescue_probability",
        "Probability to keep",
        "",
        "A rescue keeps the beginning of a block, up to the first token with a lower probability.",
        0.0,
        1.0,
        0.05,
        2,
    ),
    Setting(
        "verify_probability",
        "Probability to doubt",
        "",
        "A token is doubtful if its probability, read from left to right, is below this.",
        0.0,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "verify_rewrites",
        "Rewrites of a block",
        "rewrites",
        "How often doubtful tokens may be written again; 0 only marks them. Above 0, you cannot fork the run later.",
        0,
        MOST_REWRITES,
        1,
    ),
    Setting(
        "thinking_tokens",
        "Thinking",
        "tokens",
        "The longest thought. For models that think.",
        1,
        65536,
        256,
        none="No limit",
    ),
    Setting(
        "max_new_tokens",
        "Length",
        "tokens",
        "The longest answer, rounded up to whole blocks.",
        1,
        65536,
        64,
    ),
)
"""In the order in which files keep them."""
MAIN = ("max_denoising_steps", "t_max", "sampling_temperature", "entropy_bound", "max_new_tokens")
"""The settings that most people need, as the sampler shows them first; it folds the others."""

SEED = Setting("seed", "Seed", "", "The same seed, settings and model give the same answer again.", 0, LARGEST_SEED, 1)


@dataclass(frozen=True)
class Choice:
    """A setting with a few labelled values."""

    name: str
    label: str
    explanation: str
    options: tuple[tuple[str, str], ...]


VIEW = Choice(
    "view",
    "Canvas view",
    "Raw shows the random tokens between steps; Calm shows the best guess at every place.",
    (("raw", "Raw"), ("calm", "Calm")),
)
DECODER = Choice("decoder", "Decoding", "How the model writes its answer.", ())  # the loaded model gives the options
THOUGHT_DECODER = Choice(
    "thought_decoder",
    "Decoding of thoughts",
    "How thinking is written, up to the first block that begins after it.",
    (),
)
ANSWER_DECODER = Choice("answer_decoder", "Decoding of answers", "How everything else is written.", ())
ACCEPTANCE = Choice(
    "acceptance",
    "Tokens to keep",
    "Which tokens of a block a step keeps. Keeping them for good takes fewer steps, but none is taken back.",
    (
        ("", "The model's own"),
        ("entropy_bound", "The surest of each step"),
        ("entropy_bound_kept", "The surest, for good"),
        ("confidence_threshold", "All likely ones, for good"),
        ("margin", "All, once clearly ahead"),
    ),
)
REMASKING = Choice(
    "remasking",
    "Remasking",
    "Which places of a block a step writes.",
    (
        ("", "The model's own"),
        ("low_confidence_dynamic", "All above a probability"),
        ("low_confidence_static", "A fixed number of the likeliest"),
        ("sequential", "A fixed number from the left"),
        ("entropy_bounded", "The surest, as many as Boldness allows"),
        ("topk_margin", "A fixed number with the clearest lead"),
        ("entropy", "A fixed number of the lowest entropy"),
        ("random", "A fixed number at random"),
        ("origin", "Each with the same chance"),
    ),
)
BLOCK_CACHE = Choice(
    "block_cache",
    "Block cache",
    "What is read once for all steps of a block. Faster, but the answer may change.",
    (("", "None"), ("prefix", "The text before the block"), ("dual", "The text on both sides")),
)
RESCUE = "Rescue blocks"
RESCUE_EXPLANATION = (
    "A block that stalls or runs out of steps keeps its stable beginning, and the rest is written one token at a time. "
    "You cannot fork such a run later. The models that come with Safelight were not trained for it."
)
VERIFY = "Verify blocks"
VERIFY_EXPLANATION = (
    "The model reads each finished block from left to right, and marks the tokens that it finds unlikely. "
    "The models that come with Safelight were not trained for it: they doubt nearly every token."
)
LAYER = Choice(
    "layer",
    "Canvas layer",
    "State marks tokens that are accepted or taken back. Entropy shows how unsure each place is, in nats. Causal "
    "probability colours tokens that a left-to-right reading finds unlikely (needs Verify).",
    (("state", "State"), ("entropy", "Entropy"), ("causal", "Causal probability")),
)
PACE = Choice(
    "pace",
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
)
REDUCED_MOTION = "Reduced motion"
REDUCED_MOTION_EXPLANATION = "Changes appear at once, without fading."
