"""The activations of gated MLPs, shared by layers and the plain path of their kernels."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from engine.config import Activation


def activate(x: Tensor, activation: Activation) -> Tensor:
    return F.silu(x) if activation == "silu" else F.gelu(x, approximate="tanh")
