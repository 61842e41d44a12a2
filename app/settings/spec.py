"""The settings of a generation as the window has them, derived from the engine's declarations. Without Qt."""

from __future__ import annotations

from engine.config import LARGEST_SEED, GenerationConfig
from engine.settings import Choice, Setting, Switch, declared

SAMPLER = declared(GenerationConfig, Setting)
"""By name, in the order in which files keep them."""
MAIN = tuple(sorted((name for name, one in SAMPLER.items() if one.rank), key=lambda name: SAMPLER[name].rank))
"""The settings that most people need, as the sampler shows them first; it folds the others."""
SEED = Setting(
    "Seed", "", "The same seed, settings and model give the same answer again.", 0, LARGEST_SEED, 1, name="seed"
)


VIEW = Choice(
    "Canvas view",
    "Raw shows the random tokens between steps; Calm shows the best guess at every place.",
    (("raw", "Raw"), ("calm", "Calm")),
    name="view",
)
DECODER, ACCEPTANCE = (declared(GenerationConfig, Choice)[name] for name in ("decoder", "acceptance"))
TOKEN_THOUGHTS = declared(GenerationConfig, Switch)["token_thoughts"]
PACE = Choice(
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
    name="pace",
)
REDUCED_MOTION = Switch("Reduced motion", "Changes appear at once, without fading.", name="reduced_motion")
