"""Low-rank adapters of linear layers: out = base(x) + scaling * up(down(x)). Knows no files.

Source: Hu et al. 2021, arXiv 2106.09685. The two modes share weights, and each may have its own adapter.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.layers.adapted import Addition


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
