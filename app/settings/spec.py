"""The settings of a generation, declared once as data; widgets, storage and checks are derived. Without Qt."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import IMAGE_TOKENS, LARGEST_SEED, MOST_REWRITES


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
        "Entropy bound",
        "nats",
        "How much doubt a step may accept in all: lower accepts fewer tokens a step and takes longer.",
        0.0,
        20.0,
        0.05,
        3,
    ),
    Setting(
        "t_max",
        "Temperature at the start",
        "",
        "How freely tokens are drawn at a block's first step.",
        0.05,
        5.0,
        0.05,
        2,
    ),
    Setting(
        "t_min",
        "Temperature at the end",
        "",
        "How freely tokens are drawn towards a block's last step; it falls in a straight line.",
        0.05,
        5.0,
        0.05,
        2,
    ),
    Setting(
        "max_denoising_steps",
        "Denoising steps at most",
        "steps",
        "A block that has not converged by then is taken as it is.",
        1,
        1000,
        1,
    ),
    Setting(
        "stability_threshold",
        "Stability threshold",
        "steps",
        "For so many steps the best guess must stay unchanged before a block may end.",
        0,
        100,
        1,
    ),
    Setting(
        "confidence_threshold",
        "Confidence threshold",
        "nats",
        "A block may end once its mean entropy is below this; 0 takes every step.",
        0.0,
        10.0,
        0.001,
        4,
    ),
    Setting(
        "sampling_temperature",
        "Temperature",
        "",
        "How freely tokens are drawn; 0 takes the likeliest each time.",
        0.0,
        5.0,
        0.05,
        2,
    ),
    Setting(
        "sampling_top_k",
        "Top-k",
        "tokens",
        "Only so many of the likeliest tokens may be drawn; 0 allows all.",
        0,
        1000,
        1,
    ),
    Setting(
        "sampling_top_p",
        "Top-p",
        "",
        "Only the likeliest tokens that come to this probability together may be drawn; 1 allows all.",
        0.01,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "sampling_min_p",
        "Least share of the likeliest",
        "",
        "Only tokens with this share of the likeliest one's probability may be drawn; 0 allows all.",
        0.0,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "repetition_penalty",
        "Repetition penalty",
        "",
        "Tokens that the prompt or the text has already are less likely to be drawn; 1 leaves them as they are.",
        0.5,
        2.0,
        0.05,
        2,
    ),
    Setting(
        "window",
        "Window",
        "masks",
        "So many places ahead of the text are predicted at once.",
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
        "Added to a place's entropy for each place that it is further to the right, so that the left is written first.",
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
        "rescue_probability",
        "Probability to keep",
        "",
        "A rescue keeps the beginning of a block up to the first token whose probability is below this.",
        0.0,
        1.0,
        0.05,
        2,
    ),
    Setting(
        "verify_probability",
        "Probability to doubt",
        "",
        "A token is doubtful where the text before it alone gives it a probability below this.",
        0.0,
        1.0,
        0.01,
        2,
    ),
    Setting(
        "verify_rewrites",
        "Rewrites of a block at most",
        "rewrites",
        "So often doubtful spans may be denoised anew, all else pinned; 0 only looks. A run that may cannot be forked.",
        0,
        MOST_REWRITES,
        1,
    ),
    Setting(
        "thinking_tokens",
        "Thinking at most",
        "tokens",
        "A thought that is still open after so many tokens is ended. For models that think.",
        1,
        65536,
        256,
        none="No bound",
    ),
    Setting(
        "max_new_tokens",
        "New tokens at most",
        "tokens",
        "The longest answer, rounded up to whole blocks.",
        1,
        65536,
        64,
    ),
)

SEED = Setting("seed", "Seed", "", "The same seed, settings and model repeat an answer exactly.", 0, LARGEST_SEED, 1)


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
    "Raw shows the random tokens between steps as they are; calm shows the best guess at every place.",
    (("raw", "Raw"), ("calm", "Calm")),
)
DECODER = Choice("decoder", "Decoding", "How the model writes its answer.", ())  # the loaded model gives the options
THOUGHT_DECODER = Choice(
    "thought_decoder",
    "Decoding of thoughts",
    "Of the blocks that begin in a thought. It changes with the first block behind the thought.",
    (),
)
ANSWER_DECODER = Choice("answer_decoder", "Decoding of answers", "Of all other blocks.", ())
REMASKING = Choice(
    "remasking",
    "Remasking",
    "Which places of a block a step writes; all others stay masks.",
    (
        ("low_confidence_dynamic", "All above a probability"),
        ("low_confidence_static", "A fixed number of the likeliest"),
        ("sequential", "A fixed number from the left"),
        ("entropy_bounded", "The surest within the entropy bound"),
    ),
)
RESCUE = "Rescue blocks"
RESCUE_EXPLANATION = (
    "A block that has taken all its steps and has not converged keeps its stable beginning, and is written on from "
    "there one token after the other, which the embedded models were not trained for. Such a run cannot be forked."
)
VERIFY = "Verify blocks"
VERIFY_EXPLANATION = (
    "Each finished block is read causally by the same weights: how likely is each token by the text before it alone? "
    "The embedded models were not trained for it: to them nearly every token is doubtful."
)
LAYER = Choice(
    "layer",
    "Canvas layer",
    "State marks accepted and remelted tokens; entropy colours each place by its doubt, in nats; causal probability by "
    "how unlikely it is behind the text before it alone, where a run is verified.",
    (("state", "State"), ("entropy", "Entropy"), ("causal", "Causal probability")),
)
PACE = Choice(
    "pace",
    "Pace",
    "At 1× a block takes two to four seconds, longer only where the model needs longer. "
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
IMAGE_BUDGET = Choice(
    "image_budget",
    "Tokens of a picture at most",
    "More show a model finer detail, and take more of its context and longer to read. For models that see pictures.",
    (("", "The model's own"), *((str(count), f"{count:,}") for count in IMAGE_TOKENS)),
)
REDUCED_MOTION = "Reduced motion"
REDUCED_MOTION_EXPLANATION = "Changes appear at once, without fading."
