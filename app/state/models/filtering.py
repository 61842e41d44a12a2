"""Decides which rows of a list of models a search and a filter leave. Knows no entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Filter = Literal["all", "diffusion", "word by word", "fits", "here"]
FILTERS: tuple[Filter, ...] = get_args(Filter)
Writes = Literal["", "diffusion", "word by word"]


@dataclass(frozen=True)
class Listed:
    """The facts of a row that a search and a filter ask for. ``fits`` is None while that is being counted."""

    texts: tuple[str, ...]
    writes: Writes
    is_here: bool
    fits: bool | None


def is_shown(row: Listed, search: str, kept: Filter) -> bool:
    """Returns True if all words of the search occur in the row's texts, in any case, and the filter keeps it."""
    text = " ".join(row.texts).casefold()
    if not all(word in text for word in search.casefold().split()):
        return False
    if kept == "fits":
        return row.fits is not False
    return {"all": True, "here": row.is_here}.get(kept, row.writes == kept)
