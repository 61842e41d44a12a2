"""Settings: every bad value is refused in one line, and released files are read as they are."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import GenerationConfig, ModelConfig, SafelightError, catalog
from engine.config import LayerConfig
from engine.files import read_json
from engine.models.registry import family_of
from tests.engine.tiny import CONFIG

RELEASED: dict[str, Any] = read_json(catalog.shape("26b-a4b").folder / "config.json")  # as Google publishes it
KINDS: list[str] = RELEASED["text_config"]["layer_types"]
RELEASED_GENERATION: dict[str, Any] = {
    "max_new_tokens": 256,
    "max_denoising_steps": 48,
    "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1},
    "t_max": 0.8,
    "t_min": 0.4,
    "stability_threshold": 1,
    "confidence_threshold": 0.005,
    "bos_token_id": 2,
    "eos_token_id": [1, 106, 50],
    "pad_token_id": 0,
}


def changed(**text: Any) -> dict[str, Any]:
    """The released config with fields of text_config set, or removed where the value is ``...``."""
    raw = copy.deepcopy(RELEASED)
    raw["text_config"] = {k: v for k, v in {**raw["text_config"], **text}.items() if v is not ...}
    return raw


def refused(make: Callable[[], object]) -> str:
    """Returns the message of a refusal, which is short whatever it quotes."""
    with pytest.raises(SafelightError) as error:
        make()
    assert 0 < len(str(error.value)) < 300
    return str(error.value)


def rope(**facts: Any) -> dict[str, Any]:
    """The released config with this rotation for all of its layers."""
    return changed(rope_parameters={kind: {"rope_type": "default", "rope_theta": 1e4, **facts} for kind in KINDS})


def test_a_released_config_is_read() -> None:
    config = read(RELEASED)
    sliding = LayerConfig("sliding_attention", 256, 8, 1e4, 1.0)
    full = LayerConfig("full_attention", 512, 2, 1e6, 0.25)
    assert config.layers == tuple(full if index in (5, 11, 17, 23, 29) else sliding for index in range(30))
    assert (config.vocab_size, config.hidden_size, config.intermediate_size) == (262144, 2816, 2112)
    assert (config.num_experts, config.top_k_experts, config.moe_intermediate_size) == (128, 8, 704)
    assert (config.num_attention_heads, config.sliding_window, config.canvas_length) == (16, 1024, 256)
    assert (config.max_position_embeddings, config.rms_norm_eps, config.final_logit_softcapping) == (262144, 1e-6, 30.0)
    assert (config.bos_token_id, config.pad_token_id) == (2, 0)
    # Where a file leaves out what the architecture fixes, the same model comes out.
    assert read(changed(layer_types=..., rope_parameters=..., rms_norm_eps=...)) == config
    overrides = {str(i): {"head_dim": 512, "num_key_value_heads": 2} for i in (5, 11, 17, 23, 29)}
    flat = changed(per_layer_config=overrides, global_head_dim=..., num_global_key_value_heads=...)
    assert read(flat) == config


def read(raw: dict[str, Any]) -> ModelConfig:
    return family_of(raw).read_config(raw)


def test_released_settings_are_ours() -> None:
    assert GenerationConfig.from_dict(RELEASED_GENERATION) == GenerationConfig()
    assert GenerationConfig.from_dict({}) == GenerationConfig()
    assert GenerationConfig.from_dict({"eos_token_id": 7, "t_max": None}).eos_token_ids == (7,)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({}, "model_type"),
        ({**RELEASED, "model_type": "gemma4"}, "gemma4"),
        ({**RELEASED, "text_config": None}, "malformed"),
        ({**RELEASED, "tie_word_embeddings": False}, "tie_word_embeddings"),
        ({**RELEASED, "canvas_length": -1}, "canvas_length"),
        ({**RELEASED, "canvas_length": "many"}, "canvas_length"),
        *((changed(**{name: ...}), name) for name in ("vocab_size", "num_hidden_layers", "head_dim", "num_experts")),
        *((changed(hidden_size=bad), "hidden_size") for bad in (0, -5, 2.5, "big\nger", True, [1])),
        (changed(sliding_window=0), "sliding_window"),
        (changed(max_position_embeddings=None), "max_position_embeddings"),
        (changed(top_k_experts=129), "top_k_experts 129"),
        (changed(global_head_dim=7), "head_dim 7"),
        (changed(num_global_key_value_heads=3), "3 key-value heads"),
        (changed(num_key_value_heads="x"), "num_key_value_heads"),
        (changed(layer_types=KINDS[:-1]), "29 layer_types"),
        (changed(layer_types=[*KINDS[:-1], "linear_attention"]), "linear_attention"),
        (changed(layer_types=7), "malformed"),
        (changed(per_layer_config=[1]), "malformed"),
        (changed(rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1.0}}), "sliding_attention"),
        (rope(rope_type="yarn"), "yarn"),
        *((rope(rope_theta=bad), "rope_theta") for bad in (-1.0, 10**400, "1")),
        (rope(partial_rotary_factor=3.0), "partial_rotary_factor"),
        *((changed(rms_norm_eps=bad), "rms_norm_eps") for bad in (math.nan, "small", 10**400, [0.1])),
        (changed(final_logit_softcapping=-1.0), "final_logit_softcapping"),
        (changed(use_bidirectional_attention="all"), "use_bidirectional_attention"),
        (changed(attention_bias=True), "attention_bias"),
        (changed(hidden_activation="silu"), "silu"),
        *((changed(bos_token_id=bad), "bos_token_id") for bad in ("two", [[1]])),
        (changed(final_logit_softcapping=10**400), "final_logit_softcapping"),
        *((changed(head_dim=bad), "head_dim") for bad in (2.5, 2**62)),
        *((changed(num_hidden_layers=bad, layer_types=...), "num_hidden_layers") for bad in (20_000, 10**80, 30.0)),
        (changed(layer_types=[[1]] * 30), "layer 0"),
        (changed(per_layer_config={"0": 5}), "malformed"),
        *(
            (changed(**{name: 2**62}), name)
            for name in ("vocab_size", "hidden_size", "intermediate_size", "sliding_window", "num_experts")
        ),
        ({**RELEASED, "canvas_length": 2**62}, "canvas_length"),
        ({**RELEASED, "model_type": "x" * 5_000}, "model_type"),
        ({**RELEASED, "model_type": 10**4000}, "model_type"),
    ],
)
def test_a_bad_model_config_is_refused_by_name(raw: dict[str, Any], named: str) -> None:
    assert named in refused(lambda: read(raw))


def test_a_model_without_layers_is_refused() -> None:
    assert "no layers" in refused(lambda: dataclasses.replace(CONFIG, layers=()))


WHOLE = ("max_new_tokens", "max_denoising_steps", "canvas_length")
REAL = ("entropy_bound", "t_max", "t_min", "confidence_threshold")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, bad) for name in WHOLE for bad in (0, -1, 1.5, "3", True, math.nan)),
        *((name, bad) for name in ("stability_threshold", "top_k") for bad in (-1, 0.5, None, False)),
        *((name, bad) for name in REAL for bad in (-0.1, math.nan, math.inf, "warm", None, True)),
        ("max_denoising_steps", 10_001),
        ("canvas_length", 65_537),
        ("top_k", 65),
        *(("decoder", bad) for bad in (None, 5, "x" * 65)),
        *(("token_thoughts", bad) for bad in (None, 1, "true")),
        *(("stall_steps", bad) for bad in (-1, 1_001, 1.0, None)),
        *(("t_min", bad) for bad in (0.0, 0.81)),
        *(("t_max", bad) for bad in (0.0, 0.39, 10**400, "x" * 5_000)),
        *(("eos_token_ids", bad) for bad in ((-1,), ("</s>\n",))),
        *(("pad_token_id", bad) for bad in (-1, None)),
        ("banned_tokens", (1.5,)),
        *(("pinned", bad) for bad in (((-1, 5),), ((0, None),), ((3, 5), (3, 6)))),
        *(("pinned", odd) for odd in (None, 5, "ab", (1, 2), ((1, 2, 3),), ([1, 2],), (((),),), ((2**62, 1),))),
        *((name, odd) for name in ("eos_token_ids", "banned_tokens") for odd in (None, 5, "ab", ((1,),), (2**62,), {})),
        *(("max_new_tokens", bad) for bad in (2**62, 10**4000)),
        ("entropy_bound", 10**400),
    ],
)
def test_a_bad_setting_is_refused_by_name(name: str, value: Any) -> None:
    message = refused(lambda: GenerationConfig().replace(**{name: value}))
    assert any(word in message for word in (name, name.rstrip("s"), "pinned", "t_min"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("sampler_config", bad)
            for bad in ({"_cls_name": "Greedy\nSampler"}, 5, {"entropy_bound": "much"}, ["x" * 5_000])
        ),
        *(("eos_token_id", bad) for bad in ("<eos>", [1, None], {}, [[[1]]], 10**4000)),
        *(("t_max", bad) for bad in (0.1, 10**400)),
        ("max_denoising_steps", 48.0),
    ],
)
def test_a_bad_generation_file_is_refused(name: str, value: Any) -> None:
    refused(lambda: GenerationConfig.from_dict({name: value}))


def test_unknown_setting_is_named() -> None:
    with pytest.raises(SafelightError, match="unknown generation setting: beams, warmth"):
        GenerationConfig().replace(warmth=1, beams=4)
    assert GenerationConfig().replace(top_k=3) == GenerationConfig(top_k=3)


def test_temperature_falls_linearly_in_the_steps_that_remain() -> None:
    config = GenerationConfig(max_denoising_steps=4, t_max=0.8, t_min=0.4)
    assert [config.temperature(step) for step in range(4)] == pytest.approx([0.8, 0.7, 0.6, 0.5])
    assert GenerationConfig().temperature(47) == pytest.approx(0.4 + 0.4 / 48)
    flat = GenerationConfig(t_max=0.6, t_min=0.6)
    assert {flat.temperature(step) for step in range(48)} == {0.6}


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff\xfe{}", b'"text"'])
def test_a_bad_file_is_refused_by_name(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    assert "config.json" in refused(lambda: read_json(path))
    path.write_text(json.dumps(RELEASED))
    assert read_json(path) == RELEASED


SMALL = {"smallest_canvas": 16}


@pytest.mark.parametrize(
    ("changes", "tokens", "in_a_format"),
    [
        ({}, 256, 64),
        (SMALL | {"max_new_tokens": 1}, 16, 16),
        (SMALL | {"max_new_tokens": 16}, 16, 16),
        (SMALL | {"max_new_tokens": 17}, 32, 32),
        (SMALL | {"max_new_tokens": 128}, 128, 64),
        (SMALL | {"max_new_tokens": 129}, 256, 64),
        ({"smallest_canvas": 48, "max_new_tokens": 250}, 256, 64),
        ({"smallest_canvas": 512, "max_new_tokens": 5}, 256, 64),
        (SMALL | {"max_new_tokens": 5, "canvas_length": 64}, 64, 64),
        (SMALL | {"max_new_tokens": 5, "pinned": ((40, 3),)}, 64, 64),
        (SMALL | {"max_new_tokens": 5, "decoder": "autoregressive"}, 256, 256),
        ({"canvas_length": 24}, 24, 24),
        ({"pinned": ((90, 3),)}, 256, 256),
    ],
)
def test_a_short_answer_has_a_small_canvas_and_one_in_a_format_has_small_ones(
    changes: dict[str, Any], tokens: int, in_a_format: int
) -> None:
    config = GenerationConfig(**changes)
    assert (config.canvas(256), config.for_format(256).canvas(256)) == (tokens, in_a_format)
