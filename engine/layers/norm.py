"""RMS normalisation, computed in fp32 whatever the input's type."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.kernels import cpu_norms


class RMSNorm(nn.Module):
    """Computes x / rms(x) over the last dimension, times a weight unless ``with_scale`` is False.

    With ``adds_one`` the factor is one plus the weight, as in Gemma 3's checkpoints.
    """

    weight: nn.Parameter | None

    def __init__(self, size: int, eps: float, with_scale: bool = True, adds_one: bool = False) -> None:
        super().__init__()
        self.eps, self.adds_one = eps, adds_one
        if with_scale:
            self.weight = nn.Parameter(torch.ones(size))
        else:
            self.register_parameter("weight", None)

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor | None = self.weight
        if weight is not None and self.adds_one:
            weight = 1 + weight.float()
        if x.dtype == torch.float32 and x.device.type == "cpu" and not torch.is_grad_enabled():
            return torch.rms_norm(x, x.shape[-1:], weight, self.eps)  # one call, equal to the lines below bit for bit
        if cpu_norms.serves(x, x.shape[-1]):
            return cpu_norms.norm(x, weight, self.eps)
        wide = x.float()
        normed = wide * (wide.square().mean(-1, keepdim=True) + self.eps).pow(-0.5)
        if weight is not None:
            normed = normed * weight.float()
        return normed.type_as(x)


def weight_of(norm: RMSNorm) -> Tensor:
    """Returns the weight of a norm that has one."""
    assert norm.weight is not None
    return norm.weight
