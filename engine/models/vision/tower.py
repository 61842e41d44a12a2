"""The vision tower: converts an image's patches to its soft tokens in a prompt. Knows no files and no text.

Images of one size go through it as a batch; those of several sizes in turn. All of it is differentiable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from engine.config import VisionConfig
from engine.errors import SafelightError
from engine.kernels.reference_step import rotate
from engine.layers.attention import attend
from engine.layers.mlp import GatedMLP
from engine.layers.norm import RMSNorm
from engine.layers.rope import cos_sin


class PatchEmbedder(nn.Module):
    """Embeds patches, and adds the embeddings of each patch's column and row."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.input_proj = nn.Linear(3 * config.patch_size**2, config.hidden_size, bias=False)
        # Of columns, of rows. Not random: on the meta device torch would load its compiler for random numbers.
        self.position_embedding_table = nn.Parameter(torch.zeros(2, config.position_embedding_size, config.hidden_size))

    def forward(self, values: Tensor, places: Tensor) -> Tensor:
        """Embeds values (B, P, 3 * patch ** 2) from 0 to 1 at places (B or 1, P, 2) of column and row -> (B, P, H)."""
        by_column, by_row = self.position_embedding_table
        x: Tensor = self.input_proj((2 * (values - 0.5)).to(self.position_embedding_table.dtype))
        added: Tensor = by_column[places[..., 0]] + by_row[places[..., 1]]
        return x + added


class VisionAttention(nn.Module):
    """Attention of all patches to all. A head's first half is rotated by the patch's column, its second by the row."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        queries, keys = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.v_norm = RMSNorm(config.head_dim, config.rms_norm_eps, with_scale=False)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """Attends: x (B, P, H); rope two of (B or 1, 1, P, 2, D/2); mask (B, 1, 1, P), True where seen -> (B, P, H)."""

        def heads(projection: nn.Module, norm: nn.Module) -> Tensor:
            normed: Tensor = norm(projection(x).unflatten(-1, (-1, self.head_dim)))
            return normed.transpose(1, 2)  # (B, heads, P, D)

        def turned(x: Tensor) -> Tensor:
            return rotate(x.view(*x.shape[:-1], 2, -1), *rope).flatten(-2)

        queries, keys = turned(heads(self.q_proj, self.q_norm)), turned(heads(self.k_proj, self.k_norm))
        mixed = attend(queries, keys, heads(self.v_proj, self.v_norm), mask)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class VisionBlock(nn.Module):
    """Attention, then a gated MLP, each with a norm before and after it."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.self_attn = VisionAttention(config)
        self.mlp = GatedMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.pre_feedforward_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_feedforward_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | None = None) -> Tensor:
        """Runs the layer: x (B, P, H); rope and mask as the attention takes them -> (B, P, H)."""
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), rope, mask))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


Call: TypeAlias = Callable[..., Tensor]
"""Calls a module with its inputs. A caller that reads an image layer by layer may hold the weights elsewhere."""


def plainly(module: nn.Module, *given: Any) -> Tensor:
    return module(*given)


class VisionTower(nn.Module):
    """Tower and projector: patches to rows that replace token embeddings, unscaled.

    Args:
        text_size: of the text model's hidden states.
    """

    std_bias: nn.Parameter | None
    std_scale: nn.Parameter | None

    def __init__(self, config: VisionConfig, text_size: int) -> None:
        super().__init__()
        self.config = config
        self.patch_embedder = PatchEmbedder(config)
        self.layers = nn.ModuleList(VisionBlock(config) for _ in range(config.num_hidden_layers))
        statistics = torch.zeros(config.hidden_size), torch.ones(config.hidden_size)  # of pooled values: not trained
        for name, start in zip(("std_bias", "std_scale"), statistics, strict=True):
            self.register_parameter(name, nn.Parameter(start, requires_grad=False) if config.standardize else None)
        self.projection_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, with_scale=False)
        self.projection = nn.Linear(config.hidden_size, text_size, bias=False)

    def forward(self, values: Tensor, rows: int, columns: int) -> Tensor:
        """Converts images of one size to their soft tokens, row by row.

        Args:
            values: (B, rows * columns, 3 * patch_size ** 2) from 0 to 1, as ``preprocess.patches`` makes them.
            rows, columns: of patches; multiples of ``pooling_kernel_size``.

        Returns:
            (B, rows * columns / pooling_kernel_size ** 2, text_size).

        Raises:
            SafelightError: a side is longer than the positions that the model knows.
        """
        x, rope = self.embedded(values, rows, columns)
        for block in self.layers:
            x = block(x, rope)
        return self.projected(x, rows, columns)

    def embedded(
        self, values: Tensor, rows: int, columns: int, call: Call = plainly
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the first layer's input (B, P, H), and the rotations for all layers. Raises as ``forward``."""
        if max(rows, columns) > (most := self.config.position_embedding_size):
            raise SafelightError(
                f"the image is {columns} x {rows} patches; this model knows {most} along a side: use fewer image tokens"
            )
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).flip(-1).to(values.device)
        return self.embedded_at(values, places[None], call)

    def embedded_at(self, values: Tensor, places: Tensor, call: Call = plainly) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Does the same as ``embedded`` for patches in any order at places (B or 1, P, 2) of column and row."""
        x = call(self.patch_embedder, values, places)
        return x, self._rope(places[:, None], x.dtype)

    def projected(self, x: Tensor, rows: int, columns: int, call: Call = plainly) -> Tensor:
        """Converts the last layer's output (B, P, H) to soft tokens (B, tiles, text_size)."""
        side = self.config.pooling_kernel_size
        tiles = x.view(len(x), rows // side, side, columns // side, side, -1).transpose(2, 3)
        return self.projected_tiles(tiles.reshape(len(x), -1, side**2, x.shape[-1]), call)

    def projected_tiles(self, x: Tensor, call: Call = plainly) -> Tensor:
        """Does the same as ``projected``, tile by tile: (B, tiles, patches of one, H) -> (B, tiles, text_size)."""
        return call(self.projection, self.projection_norm(self._pooled(x)))

    def _rope(self, places: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns cosines and sines (..., P, 2, D/2) of columns and rows (..., P, 2)."""
        half = self.config.head_dim // 2
        exponents = torch.arange(0, half, 2, dtype=torch.float32, device=places.device) / half
        return cos_sin(places, 1.0 / self.config.rope_theta**exponents, dtype)

    def _pooled(self, x: Tensor) -> Tensor:
        """Returns each tile's mean, times sqrt(H) and standardised: (B, tiles, patches, H) -> (B, tiles, H)."""
        pooled: Tensor = x.float().mean(dim=2).to(x.dtype)  # the reference rounds here
        wide = pooled.float() * self.config.hidden_size**0.5
        if self.std_bias is not None and self.std_scale is not None:
            bias, scale = (part.to(wide.device).float() for part in (self.std_bias, self.std_scale))
            wide = (wide - bias) * scale
        return wide.to(x.dtype)
