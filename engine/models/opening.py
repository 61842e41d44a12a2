"""Opens a model by its path: a folder, or a GGUF file."""

from __future__ import annotations

from pathlib import Path

from engine import catalog
from engine.memory.card import AbsentCard
from engine.memory.plan import Plan
from engine.model_files import is_gguf, loads_directly
from engine.models.folder import ModelFolder


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
