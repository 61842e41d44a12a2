"""The traces that ship with the app: real runs of the embedded models, for somebody who opens Safelight first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.catalog import ASSETS
from engine.errors import SafelightError
from engine.files import read_json

FOLDER = ASSETS / "traces"
LIST = "gallery.json"


@dataclass(frozen=True)
class GalleryTrace:
    """A trace to open, its title, and what to look at in it."""

    path: Path
    title: str
    note: str


def gallery(folder: Path = FOLDER) -> tuple[GalleryTrace, ...]:
    """The traces of the gallery, in order.

    Raises:
        SafelightError: its list is missing or damaged.
    """
    listed: Any = read_json(folder / LIST).get("traces")
    try:
        return tuple(GalleryTrace(folder / str(one["file"]), str(one["title"]), str(one["note"])) for one in listed)
    except (TypeError, KeyError) as error:
        raise SafelightError(f"{folder / LIST} is damaged ({error!r}); install Safelight again") from error
