"""Low-rank adapters of linear layers: out = base(x) + scaling * up(down(x)). Knows no files.

Also which layers may have one, what PEFT calls them, and the adapter that a network has now.

Source: Hu et al. 2021, arXiv 2106.09685. The two modes share weights, and each may have its own adapter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.layers.adapted import Addition, set_addition


class LowRank(nn.Module):
    """Maps x (..., in) to scaling * up(down(x)), (..., out). ``up`` begins as zeros, so that nothing is changed."""

    def __init__(self, inputs: int, outputs: int, rank: int, scaling: float = 1.0) -> None:
        super().__init__()
        self.scaling = scaling
        self.down = nn.Parameter(torch.zeros(rank, inputs))
        self.up = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Tensor) -> Tensor:
        out = F.linear(F.linear(x, self.down), self.up)
        return out if self.scaling == 1.0 else out * self.scaling

    def add(self, x: Tensor, out: Tensor) -> None:
        """Adds the result to ``out`` in place; with as few operations as there can be for one sequence."""
        if out.dim() == 3 and out.shape[0] == 1 and x.dtype == out.dtype == self.up.dtype:
            out[0].addmm_(F.linear(x[0], self.down), self.up.T, alpha=self.scaling)
        else:
            out += self(x)


class JoinedAdditions(NamedTuple):
    """Two additions to one linear layer, the second to the sum of output and first."""

    first: Addition
    second: Addition

    def __call__(self, x: Tensor, out: Tensor, text_rows: int) -> Tensor:
        return self.second(x, self.first(x, out, text_rows), text_rows)


class LayerAdapter(nn.Module):
    """The addition to one linear layer, in each mode; None adds nothing."""

    def __init__(self, causal: LowRank | None, denoise: LowRank | None) -> None:
        super().__init__()
        self.causal, self.denoise = causal, denoise

    def forward(self, x: Tensor, out: Tensor, text_rows: int) -> Tensor:
        """Returns ``out`` (..., T, out) plus the addition for x (..., T, in): first ``text_rows`` of text."""
        if text_rows == 0:
            return out if self.denoise is None else out + self.denoise(x)
        if text_rows == x.shape[-2]:
            return out if self.causal is None else out + self.causal(x)
        text, canvas = (slice(None, text_rows), slice(text_rows, None))
        if not torch.is_grad_enabled():
            for adapter, rows in ((self.causal, text), (self.denoise, canvas)):
                if adapter is not None:
                    adapter.add(x[..., rows, :], out[..., rows, :])
            return out
        parts = [
            out[..., rows, :] if adapter is None else out[..., rows, :] + adapter(x[..., rows, :])
            for adapter, rows in ((self.causal, text), (self.denoise, canvas))
        ]
        return torch.cat(parts, dim=-2)


Mode = Literal["causal", "denoise"]
Adapters = Mapping[str, LayerAdapter]
"""Keys are our own module paths, such as ``layers.0.self_attn.q_proj``."""


class Place(NamedTuple):
    """A layer, by our own module path, in one mode."""

    path: str
    mode: Mode


@dataclass(frozen=True)
class Targets:
    """The layers of a family that may have adapters, and their names in PEFT.

    PEFT wraps each module by its own name, so that each mode may have its own adapter over one weight. Here the weight
    is one layer, and its ``LayerAdapter`` has both.
    """

    paths: re.Pattern[str]  # of our own modules
    prefixes: tuple[tuple[str, Mode], ...]  # that transformers' names have before our own, by mode
    canvas_only: str = ""  # beginning of the paths of layers that see only canvases; empty: there are none
    theirs: tuple[tuple[str, str], ...] = ()  # parts of our own paths, and transformers' names of them if those differ

    def layers(self, network: nn.Module) -> dict[str, nn.Module]:
        """Returns the linear layers that may have an adapter, packed or not, by their paths."""
        return {path: module for path, module in network.named_modules() if self.paths.fullmatch(path)}

    def modes_of(self, path: str) -> tuple[Mode, ...]:
        """Returns the modes in which a layer runs."""
        sees_canvases_alone = self.canvas_only and path.startswith(self.canvas_only)
        return ("denoise",) if sees_canvases_alone else tuple(mode for _, mode in self.prefixes)

    def peft_name(self, place: Place) -> str:
        """Returns transformers' name of the module."""
        path = place.path
        for own, other in self.theirs:
            path = path.replace(own, other)
        return next(prefix for prefix, mode in self.prefixes if mode == place.mode) + path

    def place_named(self, name: str) -> Place | None:
        """Returns the layer and mode of transformers' name of a module; None if it may have no adapter."""
        for prefix, mode in self.prefixes:
            path = name.removeprefix(prefix)
            is_inside = path != name
            for own, other in self.theirs:
                path = path.replace(other, own)
            if is_inside and self.paths.fullmatch(path) and mode in self.modes_of(path):
                return Place(path, mode)
        return None

    def joined(self, parts: Mapping[Mode, LowRank]) -> LayerAdapter:
        """Joins a layer's adapters to one. If all names are of one mode, its adapter serves all passes."""
        if len({mode for _, mode in self.prefixes}) == 1:
            (only,) = parts.values()
            return LayerAdapter(only, only)
        return LayerAdapter(parts.get("causal"), parts.get("denoise"))


def size_of(layer: nn.Module) -> tuple[int, int]:
    """Returns the outputs and the inputs of a linear layer."""
    outputs, inputs = cast(Any, layer.weight.shape)
    return outputs, inputs


def attach(network: nn.Module, adapters: Adapters) -> None:
    """Adds adapters to the outputs of their layers, replacing those there.

    The adapters' number type and device are those of the network's activations. They are not registered in the network:
    its parameters and its state do not change.
    """
    for path, adapter in adapters.items():
        set_addition(network.get_submodule(path), adapter)


def new_adapters(
    network: nn.Module,
    targets: Targets,
    rank_denoise: int,
    rank_causal: int,
    generator: torch.Generator,
    scaling: float = 1.0,
) -> dict[str, LayerAdapter]:
    """Returns new adapters for all targets, to be trained: they change no output yet.

    Args:
        rank_denoise, rank_causal: of each mode's matrices; 0 for a mode without an adapter.
        generator: on the CPU; the ``down`` matrices are drawn from it, with variance 1 / inputs.
        scaling: factor of their products; alpha / rank in PEFT's terms.

    Returns:
        Trainable modules in fp32 on the network's device.
    """
    device = next(network.parameters()).device
    ranks: dict[Mode, int] = {"causal": rank_causal, "denoise": rank_denoise}

    def fresh(layer: nn.Module, rank: int) -> LowRank:
        outputs, inputs = size_of(layer)
        made = LowRank(inputs, outputs, rank, scaling)
        with torch.no_grad():
            made.down.normal_(std=inputs**-0.5, generator=generator)
        return made.to(device)

    adapters = {}
    for path, layer in targets.layers(network).items():
        by_mode = {mode: fresh(layer, ranks[mode]) for mode in targets.modes_of(path) if ranks[mode]}
        if by_mode:
            adapters[path] = targets.joined(by_mode)
    return adapters


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
