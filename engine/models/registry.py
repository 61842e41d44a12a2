"""The families of models that are known, by the ``model_type`` of their ``config.json``: to add one, add a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.adapters.targets import Targets
from engine.config import ModelConfig
from engine.errors import SafelightError, quoted
from engine.files import read_json
from engine.models.diffusion_gemma import config as diffusion_gemma
from engine.models.diffusion_gemma.layout import NAMES, TARGETS
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.weights.layout import Names


@dataclass(frozen=True)
class Family:
    """An architecture: how its files are read, what is built from them, and how it can be decoded."""

    model_type: str
    read_config: Callable[[dict[str, Any]], ModelConfig]  # of a parsed config.json
    build: Callable[[ModelConfig], DiffusionGemma]  # weights not filled; another class needs a protocol in its place
    names: Names  # of the tensors in released checkpoints
    targets: Targets  # of adapters
    decoders: tuple[str, ...]  # names of ``decoding.generate.DECODERS`` that ``generate`` may be asked for
    default_decoder: str  # what it takes by itself


FAMILIES = {
    family.model_type: family
    for family in (
        Family(
            "diffusion_gemma",
            diffusion_gemma.read_config,
            DiffusionGemma,
            NAMES,
            TARGETS,
            decoders=("block_diffusion", "autoregressive"),
            default_decoder="block_diffusion",
        ),
    )
}


def family_of(raw: dict[str, Any]) -> Family:
    """The family of a parsed ``config.json``.

    Raises:
        SafelightError: none that is known.
    """
    found = raw.get("model_type")
    family = FAMILIES.get(found) if isinstance(found, str) else None
    if family is None:
        known = ", ".join(map(repr, FAMILIES))
        raise SafelightError(f"config.json: model_type is {quoted(found)}; this engine runs {known} checkpoints")
    return family


def config_in(folder: Path) -> ModelConfig:
    """The shape of the model in a folder.

    Raises:
        SafelightError: its ``config.json`` is missing or damaged, or of no family that is known.
    """
    raw = read_json(folder / "config.json")
    return family_of(raw).read_config(raw)
