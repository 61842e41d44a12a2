"""Safelight's engine: diffusion language models on your own machine. These are its public names.

``load_model`` and what needs torch are imported when first used, so that a window can be painted before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.catalog import EMBEDDED, PUBLISHED, SKILLS, SUDOKU, EmbeddedModel, PublishedModel
from engine.config import GenerationConfig, ModelConfig
from engine.errors import SafelightError
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.reply import Reply, read_reply
from engine.trace import Trace

if TYPE_CHECKING:
    from engine.generation import generate
    from engine.model import Model, load_model

_LAZY = {"generate": "engine.generation", "load_model": "engine.model", "Model": "engine.model"}

__all__ = [
    "EMBEDDED",
    "PUBLISHED",
    "SKILLS",
    "SUDOKU",
    "CanvasCommitted",
    "CanvasStarted",
    "EmbeddedModel",
    "Event",
    "GenerationConfig",
    "GenerationFinished",
    "Model",
    "ModelConfig",
    "PrefillFinished",
    "PublishedModel",
    "Reply",
    "SafelightError",
    "StepFinished",
    "Trace",
    "generate",
    "load_model",
    "read_reply",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
