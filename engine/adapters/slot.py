"""Holds a network's adapter, and describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from engine.adapters.targets import Adapters, Attached, attach


@dataclass(frozen=True)
class Adapter:
    """The description of an adapter that is attached to a model."""

    name: str  # an embedded one's id, else its folder's name
    title: str
    folder: Path
    fingerprint: str  # SHA-256 over both its files
    rank: int  # the largest
    parameter_count: int


class AdapterSlot:
    """Holds a network's adapter: none, or one."""

    def __init__(self) -> None:
        self.adapter: Adapter | None = None
        self._attached: list[Attached] = []

    def put(self, network: nn.Module, adapter: Adapter, layers: Adapters) -> None:
        """Attaches an adapter, replacing the current one."""
        self.clear()
        self._attached = attach(network, layers)
        self.adapter = adapter

    def clear(self) -> None:
        for one in self._attached:
            one.remove()
        self._attached = []
        self.adapter = None
