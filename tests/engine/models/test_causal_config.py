"""Files of dense causal families: how they are read, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine import GenerationConfig, SafelightError
from engine.files import write_json
from engine.models.causal.config import CausalConfig, LinearScaling, QueryScaling, Yarn
from engine.models.folder import ModelFolder
from engine.models.opening import generation_defaults, plan_model
from engine.models.registry import family_of
from engine.text.chat_template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from tests.engine.small import build_tokenizer

RAW: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
}
NEMOTRON = "nemotron_labs_diffusion"


def read(model_type: str, **changes: Any) -> CausalConfig:
    raw = {**RAW, "model_type": model_type, **changes}
    found = family_of(raw).read_config({name: value for name, value in raw.items() if value is not ...})
    assert isinstance(found, CausalConfig)
    return found


def test_each_family_reads_its_own_words() -> None:
    block = {"sdar": {"block_size": 16}}
    facts = {
        (name, bias): (c.attention_bias, c.output_bias, c.query_key_norm, c.mask_token_id, c.canvas_length)
        for name in ("qwen2", "qwen3", "wedlm", "sdar", NEMOTRON)
        for bias in (..., False, True)
        if (name, bias) != (NEMOTRON, True)
        for c in (read(name, attention_bias=bias, **block.get(name, {})),)
    }
    assert facts == {
        **dict.fromkeys([("qwen2", ...), ("qwen2", False), ("qwen2", True)], (True, False, False, None, 32)),
        **dict.fromkeys([("qwen3", ...), ("qwen3", False)], (False, False, True, None, 32)),
        ("qwen3", True): (True, True, True, None, 32),
        **dict.fromkeys([("wedlm", ...), ("wedlm", True)], (True, False, False, 151665, 32)),
        ("wedlm", False): (False, False, True, 151665, 32),
        **dict.fromkeys([("sdar", ...), ("sdar", False)], (False, False, True, 151669, 16)),
        ("sdar", True): (True, True, True, 151669, 16),
        **dict.fromkeys([(NEMOTRON, ...), (NEMOTRON, False)], (False, False, False, 100, 32)),
    }
    one = read("wedlm", mask_token_id=7, block_size=8, tie_word_embeddings=True, head_dim=6, num_key_value_heads=None)
    assert (one.mask_token_id, one.canvas_length, one.tied) == (7, 8, True)
    assert (one.layers[0].head_dim, one.layers[0].num_key_value_heads) == (6, 4)
    assert (one.bos_token_id, one.pad_token_id) == (151643, 151645)  # without a padding token: the end


def test_layers_differ_as_their_files_say() -> None:
    def sorts(model_type: str, **changes: Any) -> str:
        """A letter a layer: full, sliding; in capitals where it rotates."""
        layers = read(model_type, num_hidden_layers=8, **changes).layers
        return "".join(
            letter.upper() if layer.partial_rotary_factor else letter
            for layer in layers
            for letter in ("s" if layer.is_sliding else "f",)
        )

    listed = ["full_attention", "sliding_attention"] * 4
    assert sorts("llama") == "FFFFFFFF"
    assert sorts("smollm3") == "FFFfFFFf"
    assert sorts("smollm3", no_rope_layer_interval=3) == "FFfFFfFF"
    assert sorts("smollm3", no_rope_layers=[0, 1] * 6) == "fFfFfFfF"
    assert sorts("smollm3", use_sliding_window=True, sliding_window=9) == "FFFsFFFs"
    assert sorts("mistral") == sorts("mistral", sliding_window=9) == "SSSSSSSS"
    assert sorts("mistral", sliding_window=None) == sorts("ministral3") == "FFFFFFFF"
    assert sorts("ministral", layer_types=listed) == sorts("gemma3_text", layer_types=listed) == "FSFSFSFS"
    assert sorts("gemma3_text") == "SSSSSFSS"
    assert sorts("gemma3_text", sliding_window_pattern=2) == "SFSFSFSF"
    assert read("mistral").sliding_window == read("gemma3_text").sliding_window == 4096


def test_gemma_is_read_in_the_old_words_and_the_new() -> None:
    scaling = {"rope_type": "linear", "factor": 8.0}
    old = read("gemma3_text", rope_theta=5e5, rope_local_base_freq=7e3, rope_scaling=scaling)
    ropes = {"full_attention": {**scaling, "rope_theta": 5e5}, "sliding_attention": {"rope_theta": 7e3}}
    assert old == read("gemma3_text", rope_parameters=ropes)
    assert old == read("gemma3", text_config={**RAW, "rope_parameters": ropes})
    assert old.rope_scaling == LinearScaling(8.0)
    assert {layer.rope_theta for layer in old.layers} == {7e3}  # of two layers, none is full
    found = read("gemma3", text_config={"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6})
    assert (found.vocab_size, found.num_attention_heads, found.layers[0].head_dim) == (262_208, 8, 256)
    assert [layer.rope_theta for layer in found.layers] == [10_000.0] * 5 + [1_000_000.0]
    assert (found.query_divisor, found.tied, found.activation) == (256, True, "gelu_pytorch_tanh")


def test_the_text_of_a_mistral_that_sees_is_read() -> None:
    text = {**RAW, "model_type": "ministral3", "tie_word_embeddings": False}
    assert read("mistral3", text_config=text) == read("ministral3")
    assert read("mistral3", text_config=text, tie_word_embeddings=True).tied
    assert read("mistral3", text_config={**RAW, "sliding_window": None}) == read("mistral", sliding_window=None)


def test_rope_is_read_in_the_old_words_and_the_new() -> None:
    old = read("qwen2", rope_theta=5e5, rope_scaling={"type": "yarn", "factor": 4.0})
    yarn = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5, "original_max_position_embeddings": 512}
    assert old == read("qwen2", rope_parameters=yarn)
    assert isinstance(old.rope_scaling, Yarn)
    assert (old.rope_scaling.original, old.layers[0].rope_theta) == (512, 5e5)
    assert old.rope_scaling.attention_factor == pytest.approx(0.1 * 1.3862944 + 1)
    both = {**yarn, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
    found = read(NEMOTRON, rope_parameters=both)
    assert isinstance(found.rope_scaling, Yarn)
    assert found.rope_scaling.attention_factor == 1.0
    assert found.query_scaling == QueryScaling(0.1, 512)
    plain = read(NEMOTRON, rope_parameters={"rope_type": "default", "llama_4_scaling_beta": 0.1})
    assert (plain.rope_scaling, plain.query_scaling) == (None, None)
    defaults = [read(name).layers[0].rope_theta for name in ("qwen3", "wedlm", NEMOTRON)]
    assert defaults == [10_000.0, 1_000_000.0, 1_000_000.0]


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
EQUAL = {**LLAMA3, "high_freq_factor": 1.0, "original_max_position_embeddings": 64}
WINDOW = {"sliding_window": 64}
YARN = {"rope_type": "yarn", "factor": 2.0}


@pytest.mark.parametrize(
    ("model_type", "changes", "message"),
    [
        ("qwen2", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type 'dynamic' is not supported"),
        ("qwen3", {"rope_parameters": {"rope_type": "yarn"}}, "factor of rope_parameters is missing"),
        ("qwen3", {"rope_parameters": {**YARN, "factor": "2"}}, "factor of rope_parameters must be a finite number"),
        ("qwen3", {"rope_parameters": {**YARN, "beta_slow": 1e-320}}, "beta_slow of rope_parameters must be at least"),
        ("qwen3", {"rope_parameters": {**YARN, "rope_theta": 1.0}}, "rope_theta must be above 1"),
        ("qwen3", {"rope_parameters": {**YARN, "mscale": "x", "mscale_all_dim": 1}}, "mscale of rope_parameters must"),
        ("wedlm", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is not supported"),
        ("qwen2", {**WINDOW, "use_sliding_window": True, "max_window_layers": 1}, "a sliding window is not supported"),
        (NEMOTRON, WINDOW, "a sliding window is not supported"),
        (NEMOTRON, {"attention_bias": True}, "attention_bias is not supported in this family"),
        ("sdar", {}, "block_size is missing, the tokens of a block that this model was trained with; write it"),
        (
            "sdar",
            {"block_size": 4, "mask_token_id": 151936},
            "mask_token_id must be a whole number between 0 and 151935",
        ),
        ("qwen3", {"hidden_size": ...}, "hidden_size is missing"),
        ("qwen3", {"num_attention_heads": 0}, "num_attention_heads must be a whole number"),
        ("qwen3", {"num_key_value_heads": 3}, "3 key-value heads, which do not divide 4"),
        ("qwen3", {"head_dim": 7}, "head_dim 7; it must be even"),
        ("llama", {"rope_scaling": LLAMA3}, "original_max_position_embeddings of rope_parameters is missing; 'llama3'"),
        ("llama", {"rope_scaling": EQUAL}, "low_freq_factor must be below high_freq_factor"),
        ("smollm3", {"no_rope_layers": [1, 2]}, "no_rope_layers must have 0 or 1"),
        ("ministral", {"layer_types": ["chunked_attention", "full_attention"]}, "layer_types must name 2 layers as"),
        ("mistral3", {}, "text_config"),
        ("mistral3", {"text_config": {"model_type": "llama"}}, "'mistral' and 'ministral3' are supported"),
        ("gemma3_text", {"final_logit_softcapping": 30.0}, "final_logit_softcapping is not supported"),
        ("gemma3_text", {"tie_word_embeddings": False}, "tie_word_embeddings must be true"),
        ("gemma3_text", {"rope_parameters": {"sliding_attention": YARN}}, "'yarn' of sliding layers is not supported"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(model_type: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SafelightError) as error:
        read(model_type, **changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_window_that_is_off_is_no_window() -> None:
    for changes in ({"use_sliding_window": False}, {"use_sliding_window": True, "max_window_layers": 2}, {}):
        assert not any(layer.is_sliding for layer in read("qwen2", **WINDOW, **changes).layers)


# --- what a run takes by itself ----------------------------------------------------------------------------------


def test_sampling_is_read_as_transformers_reads_it() -> None:
    qwen = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": [151645, 151643]}
    found = GenerationConfig.from_dict(qwen)
    assert (found.sampling_temperature, found.sampling_top_k, found.sampling_top_p) == (0.6, 20, 0.95)
    assert (found.top_k, found.eos_token_ids) == (0, (151645, 151643))
    base = GenerationConfig(sampling_temperature=0.2, max_new_tokens=9)
    assert GenerationConfig.from_dict({**qwen, "do_sample": False}, base).sampling_temperature == 0.0
    assert GenerationConfig.from_dict({"temperature": 0.6}, base).sampling_temperature == 0.0
    assert GenerationConfig.from_dict({"do_sample": True}, base).sampling_temperature == 1.0
    assert GenerationConfig.from_dict({"eos_token_id": 3}, base) == base.replace(eos_token_ids=(3,))
    gemma = {**qwen, "sampler_config": {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.2}}
    assert GenerationConfig.from_dict(gemma) == GenerationConfig(entropy_bound=0.2, eos_token_ids=(151645, 151643))
    assert GenerationConfig.from_dict({"do_sample": True, "min_p": 0.1}, base).sampling_min_p == 0.1
    with pytest.raises(SafelightError, match="sampling_top_p must be at most 1"):
        GenerationConfig.from_dict({"top_p": 2.0})


def test_settings_that_are_not_followed_are_named(tmp_path: Path) -> None:
    """The plan names them; not where they have no effect."""
    write_json(tmp_path / "config.json", {**RAW, "model_type": "qwen3"})
    settings = {"top_k": 20, "no_repeat_ngram_size": 3, "typical_p": 1.0, "num_beams": 1, "suppress_tokens": [4]}
    for given, named in (
        (settings, "no_repeat_ngram_size, suppress_tokens"),
        ({"min_p": 0.1, "stop_strings": None}, ""),
    ):
        write_json(tmp_path / "generation_config.json", given)
        notes = [note for note in plan_model(tmp_path, device="cpu").notes if "generation_config.json" in note]
        assert notes == ([f"these settings of generation_config.json are not followed: {named}"] if named else [])


def test_the_mask_is_the_tokenizer_s_where_the_config_has_none(tmp_path: Path) -> None:
    """The settings come first, then its table, then the family's first files. A model without masks has none."""
    tokenizer = build_tokenizer()
    tokenizer.add_special_tokens(["<|mask|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    own = tokenizer.token_to_id("<|mask|>")
    added = {"9": {"content": "<|other|>"}, "151666": {"content": "<|mask|>"}, "x": 3}

    def mask(settings: dict[str, Any] | None, family: str = "wedlm", **changes: Any) -> int | None:
        write_json(tmp_path / "config.json", {**RAW, "model_type": family, "block_size": 4, **changes})
        (tmp_path / "tokenizer_config.json").unlink(missing_ok=True)
        if settings is not None:
            write_json(tmp_path / "tokenizer_config.json", settings)
        config = ModelFolder.open(tmp_path).config
        assert config == ModelFolder.open(tmp_path).config
        assert isinstance(config, CausalConfig)
        return config.mask_token_id

    named = {"mask_token": {"content": "<|mask|>"}, "added_tokens_decoder": added}
    as_text = {**named, "mask_token": "<|mask|>"}
    assert [mask(named), mask(as_text), mask(named, "sdar"), mask(named, NEMOTRON)] == [151666] * 4
    assert mask(named, mask_token_id=7) == 7
    assert mask({"mask_token": "<|mask|>"}) == own
    assert [mask(None), mask({"mask_token": None}), mask({"mask_token": "<|none|>"})] == [151665] * 3
    assert [mask({}, "sdar"), mask({}, NEMOTRON), mask(named, "qwen3")] == [151669, 100, None]


def test_end_tokens_are_looked_for_in_turn(tmp_path: Path) -> None:
    fast = build_tokenizer()
    fast.add_special_tokens(["<|im_end|>", "<|endoftext|>"])
    tokenizer = Tokenizer(fast)
    turn, text, end = (tokenizer.token_id(token) for token in ("<|im_end|>", "<|endoftext|>", "<eos>"))

    def found(model_type: str, **files: Any) -> GenerationConfig:
        raw = {**RAW, "model_type": model_type, "eos_token_id": files.get("config"), "pad_token_id": 9}
        write_json(tmp_path / "config.json", raw)
        for name in ("generation_config", "tokenizer_config"):
            (tmp_path / f"{name}.json").unlink(missing_ok=True)
            if name in files:
                write_json(tmp_path / f"{name}.json", files[name])
        return generation_defaults(ModelFolder.open(tmp_path), tokenizer)

    named = {"eos_token": {"content": "<eos>"}}
    assert found("qwen3", tokenizer_config=named).eos_token_ids == (end,)
    assert found("qwen3", tokenizer_config=named, config=[5, 6]).eos_token_ids == (5, 6)
    assert found("qwen3", config=5, generation_config={"eos_token_id": 7}).eos_token_ids == (7,)
    assert found("qwen3").eos_token_ids == ()
    assert found("qwen3").pad_token_id == 9
    assert found("wedlm", config=5).eos_token_ids == (5, turn, text)
    assert found("wedlm", generation_config={"eos_token_id": turn}).eos_token_ids == (turn, text)
    assert found("wedlm").sampling_temperature == 0.2
    with pytest.raises(SafelightError, match="each of eos_token_ids must be a whole number"):
        found("qwen3", config="<eos>")


def test_templates_by_name(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ bos_token }}yes"}]
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": named, "bos_token": "<b>"})
    assert ChatTemplate.from_folder(tmp_path).render([]) == "<b>yes"
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": named[:1]})
    with pytest.raises(SafelightError, match="has no default among its templates"):
        ChatTemplate.from_folder(tmp_path)
