"""Linear layers with what is added to their outputs, text and canvas apart. Knows no adapter.

What is added stands beside a layer and is no part of it: its parameters, its state and its name stay what they were.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

_BESIDE = "_addition"


class Addition(Protocol):
    """Takes a layer's input (..., T, in) and output (..., T, out), and gives the output with something added.

    The first ``text_rows`` of the T are text, the rest a canvas.
    """

    def __call__(self, x: Tensor, out: Tensor, text_rows: int) -> Tensor: ...


def linear(layer: nn.Module, x: Tensor, text_rows: int) -> Tensor:
    """A linear layer, packed or not, on x (..., T, in), of which the first ``text_rows`` are text -> (..., T, out)."""
    out: Tensor = layer(x)
    added = addition(layer)
    return out if added is None else added(x, out, text_rows)


def addition(layer: nn.Module) -> Addition | None:
    """What is added to a layer's output."""
    found: Addition | None = layer.__dict__.get(_BESIDE)
    return found


def set_addition(layer: nn.Module, added: Addition | None) -> None:
    """Add something to a layer's output from now on, in place of what was; ``None`` adds nothing."""
    layer.__dict__[_BESIDE] = added  # as an attribute it would become one of the layer's modules
