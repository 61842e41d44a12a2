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

    @property
    def gain(self) -> Tensor:
        """The weight of a norm that has one."""
        assert self.weight is not None
        return self.weight

    @property
    def factors(self) -> Tensor | None:
        """The weight as it is multiplied by."""
        return 1 + self.weight.float() if self.weight is not None and self.adds_one else self.weight

    def plus(self, x: Tensor, added: Tensor, times: Tensor | None = None) -> Tensor:
        """Returns ``added``, of x's shape and type, plus the normed x; both times a number (1,) if there is one."""
        if cpu_norms.serves(x, x.shape[-1]) and added.dtype == x.dtype:
            return cpu_norms.norm(x, self.factors, self.eps, added, 1.0 if times is None else times.item())
        out: Tensor = added + self(x)
        return out if times is None else out * times

    def forward(self, x: Tensor) -> Tensor:
        weight = self.factors
        if x.dtype == torch.float32 and x.device.type == "cpu" and not torch.is_grad_enabled():
            return torch.rms_norm(x, x.shape[-1:], weight, self.eps)  # one call, equal to the lines below bit for bit
        if cpu_norms.serves(x, x.shape[-1]):
            return cpu_norms.norm(x, weight, self.eps)
        wide = x.float()
        normed = wide * (wide.square().mean(-1, keepdim=True) + self.eps).pow(-0.5)
        if weight is not None:
            normed = normed * weight.float()
        return normed.type_as(x)
