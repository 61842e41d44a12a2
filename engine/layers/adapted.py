"""Linear layers with additions to their outputs, separate for text and canvas. Knows no adapter.

An addition is attached to a layer but is no submodule: the layer's parameters, state and name do not change.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

_BESIDE = "_addition"


class Addition(Protocol):
    """Maps a layer's input (..., T, in) and output (..., T, out) to the output plus an addition.

    The first ``text_rows`` of the T are text, the rest a canvas.
    """

    def __call__(self, x: Tensor, out: Tensor, text_rows: int) -> Tensor: ...


def linear(layer: nn.Module, x: Tensor, text_rows: int) -> Tensor:
    """A linear layer, packed or not, on x (..., T, in), of which the first ``text_rows`` are text -> (..., T, out)."""
    out: Tensor = layer(x)
    added = addition(layer)
    return out if added is None else added(x, out, text_rows)


def addition(layer: nn.Module) -> Addition | None:
    """The addition of a layer, or None."""
    found: Addition | None = layer.__dict__.get(_BESIDE)
    return found


def set_addition(layer: nn.Module, added: Addition | None) -> None:
    """Set a layer's addition, replacing the previous one; ``None`` removes it."""
    layer.__dict__[_BESIDE] = added  # a plain attribute would register a submodule
