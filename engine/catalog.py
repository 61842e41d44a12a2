"""The models we know by name. Knows no tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import SafelightError

ASSETS = Path(__file__).resolve().parent.parent / "assets"


@dataclass(frozen=True)
class EmbeddedModel:
    """A small model that ships with the app."""

    id: str
    title: str
    purpose: str

    @property
    def folder(self) -> Path:
        return ASSETS / "models" / self.id


EMBEDDED = (
    EmbeddedModel("safelight-skills", "Safelight Skills", "small text tasks and small talk"),
    EmbeddedModel("safelight-sudoku", "Safelight Sudoku", "solves Sudoku puzzles"),
)
SKILLS, SUDOKU = (model.id for model in EMBEDDED)


def resolve(path_or_id: str | Path) -> Path:
    """The folder of an embedded model's id or of a path.

    Raises:
        SafelightError: no such folder, or a folder without a model in it.
    """
    for model in EMBEDDED:
        if str(path_or_id) == model.id:
            return model.folder
    folder = Path(path_or_id).expanduser()
    known = ", ".join(model.id for model in EMBEDDED)
    if not folder.exists():
        raise SafelightError(f"there is no model at {folder}; give a model folder or one of: {known}")
    if not folder.is_dir():
        raise SafelightError(f"{folder} is a file; give the model's folder")
    if not (folder / "config.json").exists():
        raise SafelightError(f"{folder} is not a model folder: it has no config.json")
    return folder
