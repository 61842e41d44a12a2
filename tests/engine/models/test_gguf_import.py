"""A GGUF file becomes the packed store that its dequantised weights would become."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import GenerationConfig, Model, SafelightError, catalog, load_model
from engine.model_files import gguf_parts
from engine.models.diffusion_gemma.config import config_dict, generation_dict, released_name
from engine.models.diffusion_gemma.gguf import read_generation, tensor_name
from engine.models.folder import quantize
from engine.models.gguf_import import import_gguf, plan_import
from engine.models.opening import plan_model
from engine.weights import packed_store
from engine.weights.gguf import checkpoint
from tests.engine import gguf_files
from tests.engine.tiny import tokens

CPU = torch.device("cpu")
EMBEDDED = catalog.resolve(catalog.GAPS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gguf_files.tiny(tmp_path_factory.mktemp("gguf") / "tiny.gguf", EMBEDDED, gguf_files.q4_k_m)


def logits(model: Model) -> Tensor:
    cache = model.new_cache()
    hidden = model.prefill(tokens(20), cache)
    first = model.denoise(tokens(10, seed=1), cache)
    second = model.denoise(tokens(10, seed=2), cache, first / 0.8)
    return torch.cat([hidden.flatten(), first.flatten(), second.flatten()])


def rms(a: Tensor, b: Tensor) -> float:
    return float((a - b).square().mean().sqrt() / b.square().mean().sqrt())


def dequantised(file: Path, folder: Path) -> Path:
    """The file's weights, by the package's own reader, as a checkpoint in fp32."""
    made = gguf_files.model()
    read = {each.name: each for each in GGUFReader(file).tensors}
    tensors = {}
    for path, parameter in made.named_parameters():
        each = read.pop(tensor_name(path))
        tensors[released_name(path)] = torch.tensor(dequantize(each.data, each.tensor_type)).reshape(parameter.shape)
    assert list(read) == ["rope_freqs.weight"]
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_dict(made.config)))
    (folder / "generation_config.json").write_text(json.dumps(generation_dict(GenerationConfig(), [1])))
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_bytes((EMBEDDED / name).read_bytes())
    return folder


@pytest.mark.parametrize(("mix", "error"), [("Q8_0", 0.006), ("Q4_K_M", 0.08)])
def test_it_is_packed_as_its_dequantised_weights_are(
    mix: str, error: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "AT_ONCE", 50 * 256)
    file = gguf_files.tiny(tmp_path / "tiny.gguf", EMBEDDED, gguf_files.MIXES[mix])
    source = dequantised(file, tmp_path / "dequantised")
    imported = import_gguf(file, tmp_path / "imported", "int4", CPU)
    quantize(source, tmp_path / "converted", "int4", CPU)
    for name in imported.files:
        ours, theirs = (load_file(tmp_path / folder / name) for folder in ("imported", "converted"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    oracle = load_model(source, device="cpu", dtype="float32", quantization="none")
    original = gguf_files.model()
    changed = [rms(p, dict(original.named_parameters())[path]) for path, p in oracle.network.named_parameters()]
    assert 0 < max(changed) < error
    model = load_model(tmp_path / "imported", device="cpu", dtype="float32")
    assert rms(logits(model), logits(oracle)) < 0.3  # the packing's; unrelated logits have 1.4


# --- stopped, in parts -----------------------------------------------------------------------------------------------


def test_a_stopped_import_goes_on_where_it_stood(whole: Path, tmp_path: Path) -> None:
    meant = import_gguf(whole, tmp_path / "whole", "int4", CPU)
    cancel, seen = threading.Event(), list[float]()
    with pytest.raises(SafelightError, match=r"run it again to continue from layer file layer-01"):
        import_gguf(whole, tmp_path / "half", "int4", CPU, lambda _: cancel.set(), cancel)
    first = (tmp_path / "half" / "layer-00.safetensors").stat().st_mtime_ns
    assert import_gguf(whole, tmp_path / "half", "int4", CPU, seen.append) == meant
    assert (tmp_path / "half" / "layer-00.safetensors").stat().st_mtime_ns == first
    assert seen == [1 / 3, 2 / 3, 1.0]
    assert packed_store.Manifest.read(tmp_path / "half" / "safelight-store.json") == meant
    assert not (tmp_path / "half" / "safelight-store.partial.json").exists()


def test_a_tokenizer_can_be_given(tmp_path: Path) -> None:
    file = gguf_files.tiny(tmp_path / "tiny.gguf", EMBEDDED, **{"tokenizer.ggml.model": "bert"})
    with pytest.raises(SafelightError, match=r"of the kind 'bert'.*--tokenizer FOLDER"):
        import_gguf(file, tmp_path / "made", "int4", CPU)
    assert not (tmp_path / "made").exists()
    import_gguf(file, tmp_path / "made", "int4", CPU, tokenizer=EMBEDDED)
    model = load_model(tmp_path / "made", device="cpu")
    assert model.chat_ids([{"role": "user", "content": "hello"}])
    assert model.generation_defaults.max_denoising_steps == gguf_files.EB["max_steps"]  # the file's, not the folder's
    (tmp_path / "empty").mkdir()
    with pytest.raises(SafelightError, match=r"empty has no tokenizer\.json"):
        import_gguf(file, tmp_path / "other", "int4", CPU, tokenizer=tmp_path / "empty")


def test_a_file_in_parts_is_the_whole_file(whole: Path, tmp_path: Path) -> None:
    made = gguf_files.model()
    said = gguf_files.values(made.config) | gguf_files.tokenizer_values(EMBEDDED)
    (tmp_path / "parts").mkdir()
    tensors = gguf_files.weights(made, gguf_files.q4_k_m)
    gguf_files.write(tmp_path / "parts" / "tiny.gguf", said, tensors, most_tensors=20)
    first, second, *_, last = parts = sorted((tmp_path / "parts").iterdir())
    assert [part.name for part in parts] == [f"tiny-{n:05}-of-{len(parts):05}.gguf" for n in range(1, len(parts) + 1)]
    assert gguf_parts(second) == parts
    import_gguf(last, tmp_path / "split", "int4", CPU)
    import_gguf(whole, tmp_path / "whole", "int4", CPU)
    for file in (tmp_path / "whole").iterdir():
        if file.name != "safelight-store.json":
            assert (tmp_path / "split" / file.name).read_bytes() == file.read_bytes()

    plans = [plan_model(place, 64) for place in (first, second, last, tmp_path / "parts")]
    assert {(plan.model, plan.total_bytes, plan.copy_bytes) for plan in plans} == {
        ("tiny", plans[0].total_bytes, plans[0].copy_bytes)
    }
    (tmp_path / "parts" / "mmproj-tiny.gguf").touch()  # for pictures
    assert catalog.resolve(tmp_path / "parts", files=True) == first
    (tmp_path / "parts" / "other.gguf").touch()
    with pytest.raises(SafelightError, match=rf"several GGUF models; give one of them: other\.gguf, {first.name}"):
        catalog.resolve(tmp_path / "parts", files=True)

    shutil.copy(second, last)
    with pytest.raises(SafelightError, match=rf"{last.name} is not part {len(parts)} of {len(parts)}\."):
        plan_import(first)
    last.unlink()
    with pytest.raises(SafelightError, match=rf"{last.name} is missing, part {len(parts)} of {len(parts)}"):
        plan_import(first)
    first.unlink()
    with pytest.raises(SafelightError, match=f"there is no file .*{first.name}"):
        plan_model(second)


def test_ends_that_are_no_tokens_are_none() -> None:
    said = {"tokenizer.ggml.eos_token_id": [1], "tokenizer.ggml.eot_token_id": 3}
    assert read_generation(said, {"<eos>": 2}).eos_token_ids == (3, 2)


# --- bad input --------------------------------------------------------------------------------------------------------

PREFIX = "diffusion-gemma."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({PREFIX + "block_count": None}, "lacks the key diffusion-gemma.block_count"),
        ({PREFIX + "block_count": 3}, r"has 2 values of .*sliding_window_pattern for 3 layers"),
        ({PREFIX + "embedding_length": 128}, r"a token table of shape \(128, 256\) for an embedding length of 128"),
        ({PREFIX + "attention.causal": True}, "is for a causal model"),
        ({PREFIX + "attention.sliding_window_pattern": [True, True]}, "one sort of sliding and one sort of full"),
        ({PREFIX + "rope.freq_base": [1.0]}, "has a list under the key diffusion-gemma.rope.freq_base"),
        ({PREFIX + "attention.key_length": 64}, "has rope_freqs.weight of another kind"),
        ({PREFIX + "expert_feed_forward_length": 128}, r"blk.0.ffn_gate_up_exps.weight\[0\] has shape \(128, 256\)"),
        ({"tokenizer.chat_template": "{% for %}"}, "chat template"),
    ],
)
def test_bad_keys(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = gguf_files.tiny(tmp_path / "tiny.gguf", EMBEDDED, **changes)
    with pytest.raises(SafelightError, match=message) as caught:
        import_gguf(file, tmp_path / "made", "int4", CPU)
    assert "tiny.gguf" in str(caught.value)
    assert not (tmp_path / "made").exists()


def test_bad_tensors(tmp_path: Path) -> None:
    made = gguf_files.model()
    said = gguf_files.values(made.config) | gguf_files.tokenizer_values(EMBEDDED)
    sound = gguf_files.weights(made, gguf_files.q8_0)

    def refusal(**changes: Any) -> str:
        tensors = {name: each for name, each in {**sound, **changes}.items() if each is not None}
        file = gguf_files.write(tmp_path / "tiny.gguf", said, tensors)
        with pytest.raises(SafelightError) as caught:
            import_gguf(file, tmp_path / "made", "int4", CPU)
        assert not list(tmp_path.glob("made/*"))
        return str(caught.value)

    assert "lacks the tensor token_embd.weight" in refusal(**{"token_embd.weight": None})
    assert "blk.1.layer_output_scale.weight is missing" in refusal(**{"blk.1.layer_output_scale.weight": None})
    other = sound["output_norm.weight"]
    assert "has rope_freqs.weight of shape (128, 256)" in refusal(**{"rope_freqs.weight": sound["token_embd.weight"]})
    assert "blk.1.attn_v.weight is not part of this model" in refusal(**{"blk.1.attn_v.weight": other})
    assert "has shape (256,)" in refusal(**{"blk.0.ffn_down_exps.scale": other})


def test_other_architectures_are_named(tmp_path: Path) -> None:
    file = gguf_files.write(tmp_path / "a.gguf", {"general.name": "Qwen3 30B"}, {}, "qwen3moe")
    with pytest.raises(
        SafelightError, match=r"of the architecture 'qwen3moe' \('Qwen3 30B'\); only diffusion-gemma, llama"
    ):
        import_gguf(file, tmp_path / "made", "int4", CPU)
    with pytest.raises(SafelightError, match=r"of the architecture 'qwen3moe' \('Qwen3 30B'\); only diffusion-gemma"):
        load_model(file)
