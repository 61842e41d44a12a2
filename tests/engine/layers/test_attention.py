"""One layer's attention over several sequences at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.config import LayerConfig
from engine.layers.attention import Span
from engine.layers.rope import cos_sin, inverse_frequencies
from tests.engine.tiny import CANVAS, CONFIG, FULL, SLIDING, WINDOW, network

CAPACITY = 40
BOUNDS = ((3, 3 + CANVAS), (11, 17 + CANVAS))  # of two sequences: what a canvas sees, and where its own keys end


@pytest.mark.parametrize("text_rows", [0, 4])
@pytest.mark.parametrize("config", [SLIDING, FULL], ids=["sliding", "full"])
@torch.inference_mode()
def test_each_sequence_of_a_batch_has_a_span_of_its_own(config: LayerConfig, text_rows: int) -> None:
    layer: Any = network().layers[CONFIG.layers.index(config)].self_attn
    draws = torch.Generator().manual_seed(1)
    x = torch.randn(2, CANVAS, CONFIG.hidden_size, generator=draws)
    buffers = torch.randn(2, 2, config.num_key_value_heads, CAPACITY, config.head_dim, generator=draws)
    rope = cos_sin(torch.arange(CANVAS), inverse_frequencies(config), torch.float32)
    window = WINDOW if config.is_sliding else None

    def attended(rows: slice) -> Tensor:
        bounds = torch.tensor(BOUNDS, dtype=torch.int32)[rows]
        keys, values = (buffer[rows].clone() for buffer in buffers)

        def extend(new_keys: Tensor, new_values: Tensor) -> tuple[Tensor, Tensor]:
            for row, end in enumerate(bounds[:, 1].tolist()):
                keys[row, :, end - CANVAS : end] = new_keys[row]
                values[row, :, end - CANVAS : end] = new_values[row]
            return keys, values

        found: Tensor = layer(x[rows], rope, Span(bounds, text_rows, window), extend, text_rows)
        return found

    together = attended(slice(0, 2))
    assert together.shape == (2, CANVAS, CONFIG.hidden_size)
    for row in range(2):
        torch.testing.assert_close(together[row : row + 1], attended(slice(row, row + 1)), atol=1e-6, rtol=0)
    assert not torch.allclose(together[0], together[1], atol=0.1)
