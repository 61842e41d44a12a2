"""Dense causal networks, read from checkpoints as they are published, against transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    Ministral3Config,
    Ministral3ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from engine import EMBEDDED, MASKED, WEDLM, SafelightError, generate, load_model
from engine.files import read_json, write_json
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.models.folder import ModelFolder
from engine.models.registry import FAMILIES
from engine.text.message import Message
from tests.engine.decoding.seen import end_of
from tests.engine.golden.causal_reference import (
    TOLERANCE,
    VOCABULARY,
    YARN,
    build,
    build_seeing,
    check_passes,
    logits_of,
    published,
    save,
)


class Case(NamedTuple):
    """A family's checkpoint and the model of transformers that it is."""

    family: str
    kind: str
    changes: dict[str, Any]
    raw: dict[str, Any] = {}  # noqa: RUF012 - read only


ODD = {"hidden_size": 30, "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 51}
QUERIES = {**YARN, "llama_4_scaling_beta": 0.3}
CASES = {
    "qwen2": Case("qwen2", "qwen2", {"tie_word_embeddings": True}),
    "qwen2, odd, with YaRN": Case("qwen2", "qwen2", {**ODD, "rope_parameters": YARN, "tie_word_embeddings": False}),
    "qwen3, odd, tied": Case("qwen3", "qwen3", {**ODD, "head_dim": 6, "tie_word_embeddings": True}),
    "qwen3 with biases": Case("qwen3", "qwen3", {"attention_bias": True}),
    "wedlm 7B": Case("wedlm", "qwen2", {}, {"mask_token_id": 5}),
    "wedlm 8B": Case("wedlm", "qwen3", {"attention_bias": False}, {"mask_token_id": 5}),
    "llada-moe": Case(
        "lladamoe",
        "qwen3_moe",
        {"num_experts": 9, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "norm_topk_prob": False},
        {"mask_token_id": 5, "num_experts": 9, "expert_intermediate_size": 16, "qk_layernorm": True},
    ),
    "sdar": Case("sdar", "qwen3", {}, {"mask_token_id": 5, "block_size": 8}),
    "nemotron, tied, odd": Case(
        "nemotron_labs_diffusion",
        "ministral3",
        {
            **ODD,
            "head_dim": 14,
            "tie_word_embeddings": True,
            "rope_parameters": {**QUERIES, "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 4.0, "truncate": False},
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_pass_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = build(case.kind, seed=len(name), **case.changes)
    opened = ModelFolder.open(save(theirs, tmp_path, case.family, **case.raw))
    ours = opened.weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(ours, CausalNetwork)
    check_passes(ours, partial(logits_of, theirs))


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
SLIDING, FULL = "sliding_attention", "full_attention"
ROPES = {
    FULL: {"rope_type": "linear", "rope_theta": 5000.0, "factor": 8.0},
    SLIDING: {"rope_type": "default", "rope_theta": 100.0},
}
GEMMA = {
    **ODD,
    "head_dim": 14,
    "num_hidden_layers": 5,
    "sliding_window": 7,
    "layer_types": [SLIDING, SLIDING, FULL, SLIDING, FULL],
    "query_pre_attn_scalar": 23,
    "rope_parameters": ROPES,
}
PLAIN = {"sliding_window": None}
TEXTS = {
    "llama 3.1, odd, with biases": Case("llama", "llama", {**ODD, "attention_bias": True, "rope_parameters": LLAMA3}),
    "llama, tied, one key head": Case("llama", "llama", {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "smollm3, odd, by its list": Case("smollm3", "smollm3", {**ODD, "no_rope_layers": [0, 1, 0], "head_dim": 10}),
    "smollm3 with YaRN and a window": Case(
        "smollm3",
        "smollm3",
        {"no_rope_layers": [1, 0, 1], "rope_parameters": YARN, "use_sliding_window": True, "sliding_window": 9},
    ),
    "mistral 0.3": Case("mistral", "mistral", PLAIN),
    "mistral 0.1": Case("mistral", "mistral", {**ODD, "head_dim": 6, "sliding_window": 7}),
    "ministral": Case("ministral", "ministral", {"sliding_window": 5, "layer_types": [FULL, SLIDING, FULL]}),
    "gemma 3": Case("gemma3_text", "gemma3_text", GEMMA),
    "gemma 3 by its pattern": Case(
        "gemma3_text", "gemma3_text", {"num_hidden_layers": 7, "sliding_window": 7, "attention_bias": True}
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_in_pieces_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    """Longer than its windows; a text that begins with another's is read on, and goes on as if read whole."""
    case = TEXTS[name]
    theirs = build(case.kind, seed=len(name), **case.changes)
    theirs.save_pretrained(tmp_path)
    assert read_json(tmp_path / "config.json")["model_type"] == case.family
    ids = torch.randint(VOCABULARY, (60,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(input_ids=ids[None]).logits[0]
    holds_reading(tmp_path, ids, expected)


def holds_reading(folder: Path, ids: torch.Tensor, expected: torch.Tensor) -> None:
    """Any split of 60 tokens, and any of them read again, gives the logits (60, V)."""
    ours = ModelFolder.open(folder).weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(ours, CausalNetwork)
    cache = ours.new_cache()
    hidden = ours.prefill(ids[:20], cache)
    found = [ours.head(hidden), ours.decode(ids[20:21], cache, 1), ours.decode(ids[21:33], cache, 12)]
    found.append(ours.decode(ids[33:60], cache, 3))
    torch.testing.assert_close(torch.cat(found), expected, atol=TOLERANCE, rtol=0)
    assert cache.length == 36
    again = ours.decode(ids[36:], cache, 24)
    torch.testing.assert_close(again, expected[36:], atol=TOLERANCE, rtol=0)
    cache.record_ids(ids.tolist())
    assert cache.keep_prefix([*ids[:41].tolist(), VOCABULARY]) == 41
    torch.testing.assert_close(ours.decode(ids[41:], cache, 0), expected[41:], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("kind", "text", "changes"),
    [
        ("gemma3", Case("gemma3", "gemma3_text", GEMMA), {}),
        ("mistral3", Case("mistral3", "ministral3", {"rope_parameters": QUERIES}), {"tie_word_embeddings": False}),
        ("mistral3", Case("mistral3", "mistral", {**PLAIN, "tie_word_embeddings": True}), {}),
    ],
    ids=["gemma 3", "ministral 3", "mistral small, tied"],
)
def test_of_a_model_that_sees_the_text_is_read(kind: str, text: Case, changes: dict[str, Any], tmp_path: Path) -> None:
    """The tower and the projector are left out, and named in the plan."""
    theirs = build_seeing(kind, build(text.kind, **text.changes), **changes)
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(VOCABULARY, (60,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(input_ids=ids[None]).logits[0]
    holds_reading(tmp_path, ids, expected)
    planned = ModelFolder.open(tmp_path).plan(device="cpu")
    assert any("its part for images" in note for note in planned.notes)


def test_every_tensor_is_accounted_for(tmp_path: Path) -> None:
    """A tied head that is stored, buffers and scales are left out; a head that is lacking or anything else is not."""
    theirs = build("ministral3", rope_parameters=QUERIES, tie_word_embeddings=True)
    folder = save(theirs, tmp_path, "nemotron_labs_diffusion")
    held = load_file(folder / "model.safetensors")
    layer = "encoder.layers.0.self_attn."
    more = {f"{layer}k_scale": torch.ones(1), f"{layer}rotary_emb.inv_freq": torch.ones(4)}
    save_file({**held, **more, "diffusion_head.weight": torch.ones(2, 2)}, folder / "model.safetensors")
    network = ModelFolder.open(folder).weights("none", torch.device("cpu"), None).load()
    stored = {published("model." + name) for name in network.state_dict()}
    assert stored == held.keys()

    def refusal(tensors: dict[str, torch.Tensor]) -> str:
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(SafelightError) as error:
            ModelFolder.open(folder).weights("none", torch.device("cpu"), None)
        return str(error.value)

    assert "tensor encoder.layers.0.mlp.gate.weight is not part" in refusal(
        {**held, "encoder.layers.0.mlp.gate.weight": torch.ones(2)}
    )
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"tie_word_embeddings": true', '"tie_word_embeddings": false'))
    assert "tensor diffusion_head.weight is missing" in refusal(held)


def test_a_model_is_loaded_with_template_ends_and_sampling_of_its_checkpoint(tmp_path: Path) -> None:
    theirs = build("qwen3", max_position_embeddings=256)
    folder = save(theirs, tmp_path, "wedlm", mask_token_id=5, attention_bias=False)
    (folder / "generation_config.json").unlink()
    model = load_model(folder, device="cpu")
    assert model.family is FAMILIES["wedlm"]
    assert isinstance(model.config, CausalConfig)
    assert (model.config.mask_token_id, model.config.canvas_length) == (5, 32)
    assert model.generation_defaults.eos_token_ids == (1,)  # of config.json; this tokenizer has no other
    assert model.generation_defaults.pad_token_id == 0
    assert (model.compute_path, model.has_step_program) == ("plain torch: the weights are not packed", False)
    said: list[Message] = [{"role": "user", "content": "and"}]
    begun = "<|im_start|>user\nand<|im_end|>\n<|im_start|>assistant\n"
    assert model.chat_template.render(said) == begun
    assert model.chat_template.render(said, enable_thinking=False) == f"{begun}<think>\n\n</think>\n\n"
    ids = torch.tensor(model.chat_ids(said))
    logits = model.decode(ids, model.new_cache(), 0, first_logits=len(ids) - 1)
    expected = logits_of(theirs, ids, torch.arange(len(ids)), torch.ones(len(ids), len(ids), dtype=torch.bool).tril())
    torch.testing.assert_close(logits, expected[-1:], atol=TOLERANCE, rtol=0)
    with pytest.raises(SafelightError, match="does not start from noise; its decoders are"):
        model.denoise(ids, model.new_cache())
    with pytest.raises(SafelightError, match="this model has causal_parallel, autoregressive"):
        list(generate(model, ids, model.generation_defaults.replace(decoder="block_diffusion")))


@pytest.mark.parametrize(
    ("name", "build_theirs", "prefix"),
    [
        (WEDLM, lambda raw: Qwen3ForCausalLM(Qwen3Config(**raw)), "model."),
        (MASKED, lambda raw: Ministral3ForCausalLM(Ministral3Config(**raw)), "encoder."),
    ],
    ids=["wedlm is a Qwen3", "masked is a Ministral"],
)
def test_embedded_causal_models_are_read_by_transformers(
    name: str, build_theirs: Callable[[dict[str, Any]], Any], prefix: str
) -> None:
    """Read in its published layout, each writes the same text token by token, and its logits are ours."""
    ours = load_model(name, device="cpu", dtype="float32")
    folder = next(model.folder for model in EMBEDDED if model.id == name)
    raw = {key: value for key, value in read_json(folder / "config.json").items() if key not in ("model_type", "dtype")}
    reference = build_theirs(raw).eval()
    held = load_file(folder / "model.safetensors")
    tensors = {"model." + name.removeprefix(prefix): tensor.float() for name, tensor in held.items()}
    assert reference.load_state_dict(tensors, strict=False) == (["lm_head.weight"], [])  # tied
    ids = torch.tensor(ours.chat_ids([{"role": "user", "content": "Count from 7 to 19."}]))
    config = ours.generation_defaults.replace(decoder="autoregressive", max_new_tokens=60)
    last = end_of(generate(ours, ids, config))
    whole = torch.cat([ids, torch.from_numpy(last.tokens)])
    causal = torch.ones(len(whole), len(whole), dtype=torch.bool).tril()
    expected = logits_of(reference, whole, torch.arange(len(whole)), causal)
    assert expected[len(ids) - 1 : -1].argmax(dim=-1).tolist() == last.tokens.tolist()
    found = ours.decode(whole, ours.new_cache(), 0)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)  # logits of a trained model reach 30


def test_families_of_blocks_have_their_authors_settings_and_what_the_checkpoint_says_of_sampling(
    tmp_path: Path,
) -> None:
    settings = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [1, 2]}
    for family, kind, size, decoder, probability in (
        ("sdar", "qwen3", "block_size", "block_causal", 0.85),
        ("Fast_dLLM_Qwen", "qwen2", "bd_size", "sub_blocks", 0.9),
    ):
        folder = save(build(kind), tmp_path / family, family, mask_token_id=5, **{size: 8})
        write_json(folder / "generation_config.json", settings)
        model = load_model(folder, device="cpu")
        found = model.generation_defaults
        assert (model.family.decoders, model.config.canvas_length) == ((decoder,), 8)
        assert (found.accept_probability, found.sampling_temperature, found.sampling_top_p) == (probability, 0.6, 0.95)


@pytest.mark.parametrize("decoder", ["autoregressive", "self_speculation"])
def test_repetition_is_penalised_as_by_transformers(decoder: str, tmp_path: Path) -> None:
    """The checkpoint says how much, on prompt and text; a drafted token that is verified counts for those behind it."""
    texts = list[list[int]]()
    theirs = build("ministral3", rope_parameters=QUERIES, max_position_embeddings=256)
    for penalty in (1.0, 1.3):
        folder = save(theirs, tmp_path / str(penalty), "nemotron_labs_diffusion", mask_token_id=VOCABULARY - 1)
        settings = {"do_sample": False, "repetition_penalty": penalty, "eos_token_id": [], "pad_token_id": 0}
        (folder / "generation_config.json").write_text(json.dumps(settings))
        model = load_model(folder, device="cpu")
        ids = torch.arange(7, 19)
        config = model.generation_defaults.replace(decoder=decoder, max_new_tokens=24)
        assert config.repetition_penalty == penalty
        last = end_of(generate(model, ids, config))
        expected = theirs.generate(
            ids[None], max_new_tokens=24, do_sample=False, repetition_penalty=penalty, eos_token_id=None, pad_token_id=0
        )
        texts.append(last.tokens.tolist())
        assert texts[-1] == expected[0, len(ids) :].tolist()
    assert texts[0] != texts[1]
