"""Gated MLP, by default with tanh-approximated GELU; the self-conditioning block built on it; routers and experts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from engine.config import DENSE_EXPERTS, GELU, Activation, ExpertRouting, ModelConfig, VisionConfig
from engine.kernels import cpu_norms
from engine.kernels.reference import activate
from engine.layers.adapted import linear
from engine.layers.norm import RMSNorm


class GatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)), (..., H) -> (..., H); ``width`` None: as wide as the config says."""

    def __init__(
        self, config: ModelConfig | VisionConfig, activation: Activation = GELU, width: int | None = None
    ) -> None:
        super().__init__()
        self.activation: Activation = activation
        width = config.intermediate_size if width is None else width
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.down_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, x: Tensor, text_rows: int = 0) -> Tensor:
        """Runs the MLP: x (..., T, H), of which the first ``text_rows`` are text -> (..., T, H)."""
        inner = activate(linear(self.gate_proj, x, text_rows), self.activation) * linear(self.up_proj, x, text_rows)
        return linear(self.down_proj, inner, text_rows)


class SelfConditioning(GatedMLP):
    """Adds the previous step's soft embedding to the canvas embedding; used by denoise only."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.pre_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, with_scale=False)

    def forward(self, embedded: Tensor, soft: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Conditions a canvas: embedded and soft (B, C, H); None: the zero signal of a canvas's first step."""
        if soft is not None:
            embedded = embedded + super().forward(self.pre_norm(soft))
        return self.post_norm(embedded)


class Router(nn.Module):
    """Chooses experts from the raw residual stream, as DiffusionGemma does."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.top_k = config.top_k_experts
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, with_scale=False)
        self.scale = nn.Parameter(torch.ones(config.hidden_size))
        self.per_expert_scale = nn.Parameter(torch.ones(config.num_experts))
        self.proj = nn.Linear(config.hidden_size, config.num_experts, bias=False)

    def forward(self, x: Tensor, apart: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Returns weights (N, K) fp32 and expert indices (N, K) for x (N, H).

        ``apart``: numbers of rows that are multiplied separately. On a CPU, rounding in a product with few results a
        row depends on the number of rows.
        """
        size = x.shape[-1]
        if cpu_norms.serves(x, size):
            return self.choose(cpu_norms.norm(x, self.scale.float() * size**-0.5, self.norm.eps), apart)
        return self.choose(self.norm(x) * self.scale * size**-0.5, apart)

    def choose(self, scaled: Tensor, apart: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """Does the same as ``forward``, for inputs already normed and scaled."""
        parts = torch.split(scaled, list(apart)) if apart else ()
        scores = torch.cat([self.proj(rows) for rows in parts]) if parts else self.proj(scaled)
        weights, chosen = torch.softmax(scores, dim=-1, dtype=torch.float32).topk(self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights * self.per_expert_scale[chosen], chosen


class ExpertGate(nn.Module):
    """Chooses experts from normed inputs by a ``ExpertRouting``, in fp32."""

    def __init__(self, config: ModelConfig, routing: ExpertRouting) -> None:
        super().__init__()
        self.routing, self.top_k = routing, config.top_k_experts
        self.weight = nn.Parameter(torch.zeros(config.num_experts, config.hidden_size))
        self.expert_bias = nn.Parameter(torch.zeros(config.num_experts)) if routing.has_bias else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns weights (N, K) fp32 and expert indices (N, K) for x (N, H)."""
        scores = nn.functional.linear(x.float(), self.weight.float())
        scores = scores.sigmoid() if self.routing.scores == "sigmoid" else scores.softmax(dim=-1)
        ranked = scores if self.expert_bias is None else scores + self.expert_bias.float()
        chosen = self._within_groups(ranked).topk(self.top_k, dim=-1).indices
        weights = scores.gather(1, chosen)
        if self.routing.is_normed:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights * self.routing.scale, chosen

    def _within_groups(self, ranked: Tensor) -> Tensor:
        """Returns scores (N, E) with those of the groups that are not chosen at minus infinity."""
        if self.routing.groups == 1:
            return ranked
        apart = ranked.view(len(ranked), self.routing.groups, -1)  # (N, groups, experts of each)
        best = apart.topk(2, dim=-1).values.sum(dim=-1).topk(self.routing.chosen_groups, dim=-1).indices
        is_out = torch.ones(apart.shape[:2], dtype=torch.bool, device=apart.device).scatter(1, best, False)
        return apart.masked_fill(is_out[..., None], -torch.inf).flatten(1)


class Experts(nn.Module):
    """E gated MLPs of width I; gate rows come first in ``gate_up_proj``."""

    def __init__(self, config: ModelConfig, activation: Activation = GELU) -> None:
        super().__init__()
        self.activation: Activation = activation
        experts, width, hidden = config.num_experts, config.moe_intermediate_size, config.hidden_size
        self.gate_up_proj = nn.Parameter(torch.zeros(experts, 2 * width, hidden))
        self.down_proj = nn.Parameter(torch.zeros(experts, hidden, width))

    def forward(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Runs the experts: x (N, H), weights and chosen (N, K) -> (N, H)."""
        if self.gate_up_proj.shape[0] <= DENSE_EXPERTS:
            return self.dense(x, weights, chosen)
        return self.grouped(x, weights, chosen)

    def dense(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Runs every expert on every token; experts not chosen have weight 0."""
        experts, double, hidden = self.gate_up_proj.shape
        gates = torch.zeros(x.shape[0], experts, dtype=weights.dtype, device=x.device).scatter(1, chosen, weights)
        both = nn.functional.linear(x, self.gate_up_proj.view(experts * double, hidden)).view(-1, experts, double)
        gate, up = both.chunk(2, dim=-1)
        inner = activate(gate, self.activation) * up * gates.to(x.dtype)[:, :, None]  # (N, E, I)
        return inner.flatten(1) @ self.down_proj.transpose(1, 2).reshape(-1, hidden)

    def grouped(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Runs each expert on the tokens that chose it."""
        out = torch.zeros_like(x)
        for expert in torch.unique(chosen).tolist():
            token, rank = (chosen == expert).nonzero(as_tuple=True)
            gate, up = nn.functional.linear(x[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
            part = nn.functional.linear(activate(gate, self.activation) * up, self.down_proj[expert])
            out.index_add_(0, token, (part * weights[token, rank, None]).to(out.dtype))
        return out


class SparseMLP(nn.Module):
    """Experts by a ``ExpertRouting``, and the MLP that all tokens take besides, if there is one."""

    def __init__(self, config: ModelConfig, routing: ExpertRouting, activation: Activation) -> None:
        super().__init__()
        self.gate = ExpertGate(config, routing)
        self.experts = Experts(config, activation)
        shared = routing.shared_width
        self.shared_experts = GatedMLP(config, activation, shared) if shared else None

    def forward(self, x: Tensor, text_rows: int = 0) -> Tensor:
        """Runs the MLPs: x (..., T, H), of which the first ``text_rows`` are text -> (..., T, H)."""
        rows = x.reshape(-1, x.shape[-1])
        out: Tensor = self.experts(rows, *self.gate(rows)).view_as(x)
        return out if self.shared_experts is None else out + self.shared_experts(x, text_rows)
