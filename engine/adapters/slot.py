"""Holds a network's adapter, and describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from engine.adapters.targets import Adapters, attach
from engine.layers.adapted import set_addition


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
        self._layers: list[nn.Module] = []

    def put(self, network: nn.Module, adapter: Adapter, layers: Adapters) -> None:
        """Attaches an adapter, replacing the current one."""
        self.clear()
        attach(network, layers)
        self._layers = [network.get_submodule(path) for path in layers]
        self.adapter = adapter

    def clear(self) -> None:
        for layer in self._layers:
            set_addition(layer, None)
        self._layers = []
        self.adapter = None
