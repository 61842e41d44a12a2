"""What a step feeds back: the likeliest tokens, against logits in which all others are impossible."""

from __future__ import annotations

import pytest
import torch

from engine.layers.embedding import Likeliest
from engine.models.diffusion_gemma.joint import Rows, joint_pass
from engine.quant import PRECISIONS
from tests.engine.packing import packed
from tests.engine.tiny import CANVAS, VOCABULARY, network, tokens


@pytest.mark.parametrize("count", [1, 3, 64])
@pytest.mark.parametrize("scheme", ["", "int4"])
def test_the_likeliest_tokens_are_fed_back(scheme: str, count: int) -> None:
    model = packed(PRECISIONS[scheme]) if scheme else network(3)
    logits = torch.randn(CANVAS, VOCABULARY, generator=torch.Generator().manual_seed(count)) * 4
    found = Likeliest.of_logits(logits, count)
    whole = found.spread(VOCABULARY)
    assert int(whole.isfinite().sum()) == CANVAS * count
    torch.testing.assert_close(model.fed_back(found), model.fed_back(whole), atol=1e-5, rtol=1e-4)
    canvas, cache = tokens(CANVAS, 5), model.new_cache()
    alone = model.denoise(canvas, cache, found)
    torch.testing.assert_close(alone, model.denoise(canvas, cache, whole), atol=1e-4, rtol=1e-4)
    joined = joint_pass(model, [], [Rows(canvas, cache, found), Rows(canvas, cache)])
    torch.testing.assert_close(joined[0], alone, atol=1e-5, rtol=1e-5)
