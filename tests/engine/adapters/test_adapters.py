"""Adapters that ``peft`` itself made and saved, on our network, packed or not; and ours in ``peft``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig, Model, SafelightError, load_adapter, load_model, unload_adapter
from engine.adapters.lora import attach, new_adapters
from engine.adapters.peft_files import save_adapter
from engine.decoding.step_program import StepProgram
from engine.fingerprint import fingerprint
from engine.layers.kv_cache import PIECE
from engine.models.diffusion_gemma.config import TARGETS
from engine.models.folder import quantize
from engine.quant import unpack
from tests.engine import packing, tiny
from tests.engine.adapting import random_adapters
from tests.engine.golden import causal_reference
from tests.engine.golden.reference import Reference, Shape, build, save
from tests.engine.golden.test_modes import TOLERANCE, errors, tokens

if TYPE_CHECKING:
    from peft import PeftModel

# peft asks transformers by a name that transformers has replaced.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

SHAPE = Shape(prompt_length=30)
LAYERS = r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
DECODER = rf"model\.decoder\.({LAYERS}|self_conditioning\.(gate|up|down)_proj)"
ENCODER = rf"model\.encoder\.language_model\.{LAYERS}"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that transformers wrote."""
    return save(build(SHAPE, seed=5), tmp_path_factory.mktemp("base"))


def tuned_by_peft(folder: Path, seed: int = 0, **options: Any) -> PeftModel:
    """Makes the same model with a random adapter by peft, and saves it to ``folder``."""
    from peft import LoraConfig, get_peft_model  # seconds, in each process that collects the tests

    settings: dict[str, Any] = {"r": 4, "lora_alpha": 6, "target_modules": f"{DECODER}|{ENCODER}"} | options
    made = get_peft_model(build(SHAPE, seed=5), LoraConfig(**settings)).eval()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".lora_" in name:
                parameter.normal_(std=0.4 * parameter.shape[1] ** -0.5, generator=draws)
    made.save_pretrained(str(folder))
    return made


def largest(model: Model, made: PeftModel) -> float:
    """The largest difference of hidden states and logits over a prompt and three blocks."""
    return max(errors(Reference(made.base_model.model), model, SHAPE).values())


def outputs(model: Model) -> list[Tensor]:
    """Hidden states, and logits without and with self-conditioning."""
    cache = model.new_cache()
    vocabulary, length = model.config.vocab_size, model.config.canvas_length
    hidden = model.prefill(tokens(9, 1) % vocabulary, cache)
    logits = model.denoise(tokens(length, 2) % vocabulary, cache)
    return [hidden, logits, model.denoise(tokens(length, 3) % vocabulary, cache, logits)]


def agree(one: list[Tensor], other: list[Tensor]) -> list[bool]:
    return [torch.equal(a, b) for a, b in zip(one, other, strict=True)]


# --- peft's adapters here ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True, "lora_dropout": 0.5},
        {"target_modules": DECODER},
        {
            "rank_pattern": {"q_proj": 7, r"decoder.layers.1.mlp.*": 2},
            "alpha_pattern": {r"language_model.layers.\d.self_attn.k_proj": 11, "self_conditioning.up_proj": 1},
        },
    ],
    ids=["plain", "rank-stabilised", "denoise only", "patterns"],
)
def test_an_adapter_by_peft_gives_the_same(options: dict[str, Any], base: Path, tmp_path: Path) -> None:
    made = tuned_by_peft(tmp_path, **options)
    model = load_model(base, dtype="float32")
    plain, names = outputs(model), list(model.network.state_dict())
    adapter = load_adapter(model, tmp_path)
    assert (model.adapter, list(model.network.state_dict())) == (adapter, names)
    assert largest(model, made) <= TOLERANCE
    assert (adapter.name, adapter.folder) == (tmp_path.name, tmp_path)
    assert adapter.rank == (7 if "rank_pattern" in options else 4)
    assert adapter.parameter_count == sum(p.numel() for n, p in made.named_parameters() if ".lora_" in n)
    # A mode without an adapter stays what it is, given the same keys and values.
    causal, first, _ = agree(plain, outputs(model))
    assert causal == (options.get("target_modules") == DECODER)
    assert not first
    unload_adapter(model)
    assert model.adapter is None
    assert all(agree(plain, outputs(model)))


def test_one_mode_at_a_time_and_one_in_place_of_the_other(base: Path, tmp_path: Path) -> None:
    """Two adapters of other ranks, one after the other on the same model."""
    first, second = tuned_by_peft(tmp_path / "a", 1), tuned_by_peft(tmp_path / "b", 2, r=3)
    model = load_model(base, dtype="float32")
    one = load_adapter(model, tmp_path / "a")
    other = load_adapter(model, str(tmp_path / "b"))
    assert largest(model, second) <= TOLERANCE
    assert largest(model, first) > 100 * TOLERANCE
    assert one.fingerprint != other.fingerprint
    assert load_adapter(model, tmp_path / "a").fingerprint == one.fingerprint
    assert largest(model, first) <= TOLERANCE


# --- over packed layers ------------------------------------------------------------------------------------------


def test_over_packed_layers(tmp_path: Path) -> None:
    """They add what they do over the weights that the codes stand for, to the rounding of the order of sums."""
    quantization = "nf4"
    source = packing.released(tmp_path / "base")
    packed = load_model(source, dtype="float32", quantization=quantization)
    plain = load_model(source, dtype="float32", quantization="none")
    for path, layer in TARGETS.layers(packed.network).items():
        plain.network.get_submodule(path).weight.copy_(unpack(layer.weight.packed))  # type: ignore[union-attr, operator]
    for path in ("experts.gate_up_proj", "experts.down_proj"):
        for index in range(len(plain.network.layers)):
            name = f"layers.{index}.{path}"
            plain.network.get_parameter(name).copy_(unpack(packed.network.get_submodule(name).packed))  # type: ignore[arg-type]
    plain.network.embed_tokens.weight.copy_(unpack(packed.network.embed_tokens.weight.packed))
    adapters = random_adapters(packed.network)
    save_adapter(tmp_path / "lora", adapters, TARGETS, "base", fingerprint(source), torch.float32)
    bare = outputs(packed)
    for model in (packed, plain):
        load_adapter(model, tmp_path / "lora")
    for ours, theirs, without in zip(outputs(packed), outputs(plain), bare, strict=True):
        assert (ours - theirs).abs().max() <= 2e-3
        assert (ours - without).abs().max() > 0.1


def test_on_a_store_of_its_base(tmp_path: Path) -> None:
    """A packed store has a fingerprint of its own; it says what it was packed from."""
    source = packing.released(tmp_path / "base")
    quantize(source, tmp_path / "small", "nf4", torch.device("cpu"))
    for name, base_name in (("good", "base"), ("bad", "another")):
        adapters = random_adapters(packing.packable())
        save_adapter(tmp_path / name, adapters, TARGETS, base_name, fingerprint(source))
    model = load_model(tmp_path / "small")
    load_adapter(model, tmp_path / "good")
    with pytest.raises(SafelightError, match="made for another, not for base; load that model first"):
        load_adapter(model, tmp_path / "bad")


# --- text and canvas in one pass ---------------------------------------------------------------------------------


def test_text_and_canvas_in_one_pass_equal_two() -> None:
    """The step program's merged pass, where each row meets the adapter of its mode."""
    network = tiny.network()
    attach(network, random_adapters(network))
    config = GenerationConfig(max_denoising_steps=2, confidence_threshold=0.0)
    prompt, done, canvas = tiny.tokens(13, 1), tiny.tokens(tiny.CANVAS, 2), tiny.tokens(tiny.CANVAS, 3)

    cache = network.new_cache()
    cache.reserve(len(prompt) + 2 * tiny.CANVAS)
    network.prefill(prompt, cache)
    program = StepProgram(network, cache, tiny.CANVAS)
    program.begin(canvas, None, config, done)
    with torch.inference_mode():
        merged = network.head(program.layers(tiny.CANVAS))

    apart = network.new_cache()
    for piece in prompt.split(PIECE):
        network.prefill(piece, apart)
    network.prefill(done, apart)
    torch.testing.assert_close(merged, network.denoise(canvas, apart), atol=2e-5, rtol=0)
    soft = torch.randn(tiny.CANVAS, tiny.VOCABULARY, generator=torch.Generator().manual_seed(4))
    cache.advance(tiny.CANVAS)
    program.begin(canvas, None, config)
    with torch.inference_mode():
        program.soft.copy_(network.soft_embedding(torch.softmax(soft, dim=-1)))
        later = network.head(program.layers())
    torch.testing.assert_close(later, network.denoise(canvas, apart, soft), atol=2e-5, rtol=0)


# --- ours in peft ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [(3, 5), (0, 4)])
def test_ours_load_in_peft(ranks: tuple[int, int], base: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    model = load_model(base, dtype="float32")
    adapters = random_adapters(model.network, causal=ranks[0], denoise=ranks[1])
    save_adapter(tmp_path, adapters, TARGETS, "base", fingerprint(base), torch.float32)
    theirs = PeftModel.from_pretrained(build(SHAPE, seed=5), str(tmp_path)).eval()
    attach(model.network, adapters)
    assert largest(model, theirs) <= TOLERANCE
    found = {name for name, _ in theirs.named_parameters() if ".lora_" in name}
    assert len(found) == sum(2 for a in adapters.values() for part in (a.causal, a.denoise) if part is not None)
    trained = outputs(model)
    load_adapter(model, tmp_path)
    assert all(agree(trained, outputs(model)))


def test_fresh_adapters_change_nothing(base: Path) -> None:
    model = load_model(base, dtype="float32")
    plain = outputs(model)
    adapters = new_adapters(model.network, TARGETS, 4, 2, torch.Generator().manual_seed(1))
    attach(model.network, adapters)
    assert all(agree(plain, outputs(model)))
    assert adapters.keys() == TARGETS.layers(model.network).keys()
    assert all(parameter.requires_grad for adapter in adapters.values() for parameter in adapter.parameters())
    assert adapters["self_conditioning.up_proj"].causal is None
    wide = torch.cat([a.denoise.down.flatten() for a in adapters.values() if a.denoise is not None])
    assert 0.1 < wide.std() < 0.3  # inputs of 32 to 64
    causal_alone = new_adapters(model.network, TARGETS, 0, 2, torch.Generator())
    assert {adapter.denoise for adapter in causal_alone.values()} == {None}


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_an_adapter_by_peft_for_a_causal_model_gives_the_same(kind: str, tmp_path: Path) -> None:
    """Also for the text of a model that sees, by the names of the module that transformers loads it into."""
    from peft import LoraConfig, get_peft_model  # seconds, in each process that collects the tests

    text = causal_reference.build("gemma3_text" if kind == "gemma3" else kind)
    theirs: Any = causal_reference.build_seeing(kind, text) if kind == "gemma3" else text
    folder = causal_reference.save(theirs, tmp_path / "base", kind)
    targets = rf".*(language_model|model)\.{LAYERS}"
    made = get_peft_model(theirs, LoraConfig(r=4, lora_alpha=6, target_modules=targets)).eval()
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if ".lora_" in name:
                parameter.normal_(std=0.4 * parameter.shape[1] ** -0.5, generator=draws)
    made.save_pretrained(str(tmp_path / "adapter"))
    model = load_model(folder, device="cpu", dtype="float32")
    ids = torch.arange(20)
    before = model.decode(ids, model.new_cache(), 0)
    load_adapter(model, tmp_path / "adapter")
    found = model.decode(ids, model.new_cache(), 0)
    with torch.no_grad():
        expected = made(input_ids=ids[None]).logits[0]
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    assert (found - before).abs().max() > 0.1
