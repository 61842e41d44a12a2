"""Linear layers with additions to their outputs, separate for text and canvas. Does not know what an addition is.

An addition is attached to a layer but is no submodule: the layer's parameters, state and name do not change.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

_ADDITION = "_addition"
_set = 0


class Addition(Protocol):
    """Maps a layer's input (..., T, in) and output (..., T, out) to the output plus an addition.

    The first ``text_rows`` of the T are text, the rest a canvas.
    """

    def __call__(self, x: Tensor, out: Tensor, text_rows: int) -> Tensor: ...


def linear(layer: nn.Module, x: Tensor, text_rows: int) -> Tensor:
    """Applies a linear layer, packed or not, with its addition: x (..., T, in) -> (..., T, out).

    The first ``text_rows`` of the T are text.
    """
    out: Tensor = layer(x)
    added = addition(layer)
    return out if added is None else added(x, out, text_rows)


def addition(layer: nn.Module) -> Addition | None:
    """Returns the addition of a layer, or None."""
    return layer.__dict__.get(_ADDITION)


def set_addition(layer: nn.Module, added: Addition | None) -> None:
    """Sets a layer's addition, replacing the previous one; ``None`` removes it."""
    global _set
    _set += 1
    layer.__dict__[_ADDITION] = added  # in __dict__: setattr would register a submodule


def additions_set() -> int:
    """Returns how often an addition has been set so far: what was derived from layers without one may be outdated."""
    return _set
