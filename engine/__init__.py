"""Safelight's engine: diffusion language models on your own machine. These are its public names.

``load_model`` and what needs torch are imported when first used, so that a window can be painted before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.catalog import (
    ADAPTERS,
    BASE,
    EMBEDDED,
    GAPS,
    MASKED,
    MINI,
    PUBLISHED,
    SIGHT,
    SUDOKU,
    WEDLM,
    EmbeddedAdapter,
    EmbeddedModel,
    PublishedModel,
)
from engine.config import GenerationConfig, ModelConfig
from engine.errors import SafelightError
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    Influence,
    PrefillFinished,
    PrefixPinned,
    SlotsRead,
    StepFinished,
    TextArrived,
    step_number,
)
from engine.forks import Fork, Mark, chain
from engine.text.reply import Reply, read_reply
from engine.trace import SUFFIX as TRACE_SUFFIX
from engine.trace import (
    Entry,
    GalleryTrace,
    ModelIdentity,
    Parent,
    Recording,
    Trace,
    TraceError,
    TraceFile,
    TraceHeader,
    TraceWriter,
    gallery,
    identify_model,
    open_trace,
    prune_traces,
)

if TYPE_CHECKING:
    from engine.adapters.lora import Adapter
    from engine.decoding.gap_filling import Filled, infill
    from engine.decoding.generate import fork, generate, rewrite_marked
    from engine.decoding.influence import influence
    from engine.models.adapting import load_adapter, unload_adapter
    from engine.models.model import Model, load_model
    from engine.models.opening import RunSettings, run_settings
    from engine.training.finetune import train_adapter

_LAZY = {
    "Adapter": "engine.adapters.lora",
    "Filled": "engine.decoding.gap_filling",
    "Model": "engine.models.model",
    "RunSettings": "engine.models.opening",
    "fork": "engine.decoding.generate",
    "generate": "engine.decoding.generate",
    "infill": "engine.decoding.gap_filling",
    "influence": "engine.decoding.influence",
    "load_adapter": "engine.models.adapting",
    "load_model": "engine.models.model",
    "rewrite_marked": "engine.decoding.generate",
    "run_settings": "engine.models.opening",
    "train_adapter": "engine.training.finetune",
    "unload_adapter": "engine.models.adapting",
}

__all__ = [
    "ADAPTERS",
    "BASE",
    "EMBEDDED",
    "GAPS",
    "MASKED",
    "MINI",
    "PUBLISHED",
    "SIGHT",
    "SUDOKU",
    "TRACE_SUFFIX",
    "WEDLM",
    "Adapter",
    "CanvasCommitted",
    "CanvasStarted",
    "EmbeddedAdapter",
    "EmbeddedModel",
    "Entry",
    "Event",
    "Filled",
    "Fork",
    "GalleryTrace",
    "GenerationConfig",
    "GenerationFinished",
    "Influence",
    "Mark",
    "Model",
    "ModelConfig",
    "ModelIdentity",
    "Parent",
    "PrefillFinished",
    "PrefixPinned",
    "PublishedModel",
    "Recording",
    "Reply",
    "RunSettings",
    "SafelightError",
    "SlotsRead",
    "StepFinished",
    "TextArrived",
    "Trace",
    "TraceError",
    "TraceFile",
    "TraceHeader",
    "TraceWriter",
    "chain",
    "fork",
    "gallery",
    "generate",
    "identify_model",
    "infill",
    "influence",
    "load_adapter",
    "load_model",
    "open_trace",
    "prune_traces",
    "read_reply",
    "rewrite_marked",
    "run_settings",
    "step_number",
    "train_adapter",
    "unload_adapter",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
