"""The actions of the Lab: none of its own, as each of its pages lists its actions itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import AppContext, Lazy
from app.design.action import Action

if TYPE_CHECKING:
    from app.lab.controller import LabController


def actions(_context: AppContext, _page: Lazy[LabController]) -> list[Action]:
    """Returns no actions."""
    return []
