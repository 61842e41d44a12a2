"""ModernBERT against transformers, read from checkpoints as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

from engine import GenerationConfig, GenerationFinished, SafelightError, generate
from engine.layers.attention import Near, mix
from engine.models.folder import ModelFolder
from engine.models.modernbert.config import read_config
from engine.models.modernbert.network import ModernBert
from tests.engine.golden.causal_reference import randomised, save

SHAPE: dict[str, Any] = {
    "vocab_size": 131, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 5, "num_attention_heads": 4,
    "max_position_embeddings": 64, "local_attention": 6, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 1,
    "bos_token_id": 2, "eos_token_id": 1,
}  # fmt: skip


def saved(folder: Path, **changes: Any) -> ModernBertForMaskedLM:
    made = randomised(ModernBertForMaskedLM(ModernBertConfig(**SHAPE | changes)))
    save(made, folder, "modernbert", mask_token_id=5)
    return made


def loaded(folder: Path) -> ModernBert:
    network = ModelFolder.open(folder).weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(network, ModernBert)
    return network


@pytest.mark.parametrize("changes", [{}, {"local_attention": 3}, {"local_attention": 128, "num_hidden_layers": 1}])
def test_logits_are_those_of_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    reference, network = saved(tmp_path, **changes), loaded(tmp_path)
    ids = torch.randint(0, 131, (23,), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = reference(input_ids=ids[None]).logits[0]
    found = network.decode(ids, network.new_cache(), 0, is_causal=False)
    assert (found - wanted).abs().max() < 2e-4
    some = network.decode(ids, network.new_cache(), 0, 20, is_causal=False)
    assert (some - found[20:]).abs().max() < 1e-5  # fewer rows may be summed in another order


def test_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    """As bidirectional decoding reads them: those that are predicted come last."""
    reference, network = saved(tmp_path), loaded(tmp_path)
    ids = torch.randint(0, 131, (23,), generator=torch.Generator().manual_seed(0))
    places = torch.randperm(23, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        wanted = reference(input_ids=ids[None]).logits[0, places]
    found = network.decode(ids[places], network.new_cache(), 0, 17, places, is_causal=False)
    assert (found - wanted[17:]).abs().max() < 2e-4


def test_a_text_is_that_of_a_plain_statement_over_transformers(tmp_path: Path) -> None:
    """Two masks a pass, those of the likeliest tokens."""
    reference, network = saved(tmp_path), loaded(tmp_path)
    prompt, text = list(range(20, 31)), [5] * 8
    for _ in range(4):
        with torch.inference_mode():
            shares = reference(input_ids=torch.tensor([prompt + text])).logits[0, len(prompt) :].softmax(dim=-1)
        sure = {place: shares[place].max() for place in range(8) if text[place] == 5}
        for place in sorted(sure, key=lambda place: -sure[place])[:2]:
            text[place] = int(shares[place].argmax())
    settings = GenerationConfig(
        decoder="bidirectional",
        max_new_tokens=8,
        canvas_length=8,
        max_denoising_steps=4,
        eos_token_ids=(),
        remasking="low_confidence_static",
    )
    cache = network.new_cache()
    *_, end = generate(network, prompt, settings, cache=cache)
    assert isinstance(end, GenerationFinished)
    assert end.tokens.tolist() == text
    assert cache.nbytes == 0


@pytest.mark.parametrize(("length", "window"), [(1100, 65), (1024, 600), (513, 1), (7, 9)])
def test_near_rows_are_those_of_a_mask(length: int, window: int) -> None:
    """Taken by pieces, also where a piece sees none, all, or rows of several others."""
    generator = torch.Generator().manual_seed(length)
    parts = [torch.randn(2, heads, length, 8, generator=generator) for heads in (4, 2, 2)]
    places = torch.arange(length)
    wanted = mix(*parts, (places[:, None] - places).abs() < window)
    assert (mix(*parts, Near(window)) - wanted).abs().max() < 1e-5


def test_a_pass_reads_a_whole_text(tmp_path: Path) -> None:
    saved(tmp_path)
    network, ids = loaded(tmp_path), torch.arange(8)
    for options in ({"is_causal": True}, {"commit": 3}, {"positions": ids + 1}, {"positions": ids // 2}):
        with pytest.raises(SafelightError, match="reads whole texts"):
            network.decode(ids, network.new_cache(), **{"commit": 0, "is_causal": False, **options})
    with pytest.raises(SafelightError, match="reads whole texts"):
        network.prefill(ids, network.new_cache())


def test_files_of_older_transformers_name_thetas_and_layers_by_number() -> None:
    old = {"global_rope_theta": 9_000.0, "local_rope_theta": 70.0, "global_attn_every_n_layers": 2, "norm_eps": 1e-4}
    found = read_config({**SHAPE, **old, "mask_token_id": 5})
    assert [(layer.is_sliding, layer.rope_theta) for layer in found.layers] == [(False, 9_000.0), (True, 70.0)] * 2 + [
        (False, 9_000.0)
    ]
    assert (found.sliding_window, found.rms_norm_eps, found.mask_token_id) == (4, 1e-4, 5)
    assert read_config({**SHAPE, "vocab_size": 50_368}).mask_token_id == 50_284


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"decoder_bias": False}, "decoder_bias False is not supported"),
        ({"hidden_activation": "silu"}, "hidden_activation 'silu' is not supported"),
        ({"tie_word_embeddings": False}, "a head of its own"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"local_attention": 1}, "local_attention"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
    ],
)
def test_what_is_not_implemented_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SafelightError, match=said):
        read_config({**SHAPE, **changes})
