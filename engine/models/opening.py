"""Opens a model by its path, a folder or a GGUF file: its plan, and the defaults of its runs from its small files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import catalog
from engine.config import IMAGE_TOKENS, GenerationConfig
from engine.memory.machine import AbsentCard
from engine.memory.plan import Plan
from engine.model_files import is_gguf, loads_directly
from engine.models.folder import ModelFolder
from engine.text.tokenizer import Tokenizer


def open_model(path_or_id: str | Path, *, shapes: bool = False) -> ModelFolder:
    """Reads a model's small files, except its tokenizer and template.

    Args:
        path_or_id: the folder of a checkpoint, a GGUF file, or an embedded model's id.
        shapes: also the id of a shape.

    Raises:
        SafelightError: there is no such model, or its files are damaged, or of no family that is known.
    """
    path = catalog.resolve(path_or_id, shapes=shapes, files=True)
    if not is_gguf(path):
        return ModelFolder.open(path)
    from engine.models.gguf_import import GGUFModel  # imports the GGUF library, which nothing else needs

    opened = GGUFModel.open_file(path).loadable()
    return opened.known_as(catalog.TALK) if str(path_or_id) == catalog.TALK.id else opened


def plan_model(
    path_or_id: str | Path,
    context: int | None = None,
    quantization: str = "auto",
    device: str | AbsentCard = "auto",
    dtype: str = "auto",
) -> Plan:
    """Counts the memory that a model takes once it is loaded; of a GGUF file that has to be imported, once it is.

    Args:
        path_or_id: as ``open_model`` takes it, or the id of a shape.
        context, quantization, device, dtype: as ``ModelFolder.plan`` takes them.

    Raises:
        SafelightError: as ``open_model``, or an argument is out of range.
    """
    file = catalog.resolve(path_or_id, shapes=True, files=True)
    if is_gguf(file) and not loads_directly(file):
        from engine.models.gguf_import import plan_import  # see above

        return plan_import(file, context, quantization, device, dtype)
    return open_model(path_or_id, shapes=True).plan(context, quantization, device, dtype)


@dataclass(frozen=True)
class RunSettings:
    """The settings that runs of a model may have.

    Args:
        decoders: those that they may have, the model's own first.
        defaults: their settings by default.
        sees: True if their prompts may have images.
    """

    decoders: tuple[str, ...]
    defaults: GenerationConfig
    sees: bool = False


def run_settings(path_or_id: str | Path) -> RunSettings:
    """Reads the settings of a model that is not loaded, from its small files without weights.

    Slow with a large tokenizer.

    Args:
        path_or_id: as for ``open_model``.

    Raises:
        SafelightError: there is no such model, or one of these files is missing or damaged.
    """
    opened = open_model(path_or_id)
    defaults = generation_defaults(opened, opened.tokenizer())
    return RunSettings(opened.family.decoders, defaults, opened.config.vision is not None)


def generation_defaults(opened: ModelFolder, tokenizer: Tokenizer) -> GenerationConfig:
    """Returns the settings of ``generation_config.json``, and the family's where that leaves one out.

    End tokens are those of ``generation_config.json``, else the family's, else of ``config.json``, else the
    tokenizer's. Tokens that always end a text of the family are added. ``config.json`` sets the budget of an image.

    Raises:
        SafelightError: a file is damaged, or a value in it is none.
    """
    family = opened.family
    base = family.defaults
    if not base.eos_token_ids:
        ends = opened.raw.get("eos_token_id")
        ends = _end_of(opened, tokenizer) if ends is None else ends
        base = base.replace(
            eos_token_ids=tuple(ends) if isinstance(ends, list) else (ends,), pad_token_id=opened.config.pad_token_id
        )
    budget = opened.raw.get("vision_soft_tokens_per_image")
    base = base.replace(image_tokens=budget) if isinstance(budget, int) and budget in IMAGE_TOKENS else base
    defaults = GenerationConfig.from_dict(opened.small_file("generation_config.json"), base)
    written = (tokenizer.token_id(token) for token in family.ends)
    more = tuple(token for token in written if token is not None and token not in defaults.eos_token_ids)
    return defaults.replace(eos_token_ids=(*defaults.eos_token_ids, *more))


def _end_of(opened: ModelFolder, tokenizer: Tokenizer) -> list[int]:
    token: Any = opened.small_file("tokenizer_config.json").get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    token_id = tokenizer.token_id(token) if isinstance(token, str) else None
    return [] if token_id is None else [token_id]
