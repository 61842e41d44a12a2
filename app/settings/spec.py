"""The settings of a generation, declared once as data; widgets, storage and checks are derived. Without Qt."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import LARGEST_SEED


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
        "max_denoising_steps",
        "Steps",
        "",
        "The most steps of a block. A block that is not finished by then is taken as it is.",
        1,
        1000,
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
ACCEPTANCE = Choice(
    "acceptance",
    "Tokens to keep",
    "Which tokens of a block a step keeps. Keeping them for good takes fewer steps, but none is taken back.",
    (
        ("", "The model's own"),
        ("entropy_bound", "The surest of each step"),
        ("entropy_bound_kept", "The surest, for good"),
        ("confidence_threshold", "All likely ones, for good"),
    ),
)
TOKEN_THOUGHTS = "Think token by token"
TOKEN_THOUGHTS_EXPLANATION = "Thinking is written from left to right, and the answer behind it by block diffusion."
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
