"""The training loss and its gradients against the same computed through transformers, with peft's matrices in place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import DiffusionGemmaForBlockDiffusion, DynamicCache

from engine import load_model
from engine.adapters.config import tensor_name
from engine.adapters.lora import Place, attach
from engine.adapters.peft_files import AdapterFiles
from engine.models.diffusion_gemma.config import TARGETS as LAYERS
from engine.models.diffusion_gemma.config import released_name
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.training.loss import Draws, uniform_loss
from engine.training.puzzles import TrainingBatch
from tests.engine.golden.reference import VOCABULARY, Shape, build, save

# peft asks transformers by a name that transformers has replaced.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

SHAPES = {
    "prompt within the window": Shape(prompt_length=9),
    "prompt beyond the window, grouped experts": Shape({"num_experts": 16, "top_k_experts": 3}, prompt_length=34),
}
ROWS, EOS = 3, 1
CONDITIONED = {"none": (False,) * ROWS, "some": (True, False, True)}
TARGETS = (
    r"model\.(decoder|encoder\.language_model)\.layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"
    r"|model\.decoder\.self_conditioning\.(gate|up|down)_proj"
)


def example(shape: Shape, conditioned: tuple[bool, ...]) -> tuple[TrainingBatch, Draws]:
    """Random tokens; the answers end with 0, 3 and 6 end tokens."""
    draws = torch.Generator().manual_seed(4)
    ids = torch.randint(2, VOCABULARY, (ROWS, shape.prompt_length), generator=draws)
    target = torch.randint(2, VOCABULARY, (ROWS, shape.canvas_length), generator=draws)
    for row in range(ROWS):
        target[row, shape.canvas_length - 3 * row :] = EOS
    noise = torch.randint(VOCABULARY, target.shape, generator=draws)
    canvas = torch.where(torch.rand(target.shape, generator=draws) < 0.5, target, noise)
    return TrainingBatch(ids, torch.ones_like(ids, dtype=torch.bool), target), Draws(canvas, torch.tensor(conditioned))


def reference_losses(
    model: DiffusionGemmaForBlockDiffusion, batch: TrainingBatch, draws: Draws
) -> tuple[Tensor, Tensor]:
    """Losses of the canvases and of the clean text, as transformers computes logits."""
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    model.model.encoder(input_ids=batch.ids, past_key_values=cache)
    with torch.no_grad():
        guess = model(decoder_input_ids=draws.canvas, past_key_values=cache).logits
    logits = model(
        decoder_input_ids=draws.canvas,
        past_key_values=cache,
        self_conditioning_logits=guess,
        self_conditioning_mask=draws.conditioned,
    ).logits
    denoise = F.cross_entropy(logits.flatten(0, 1), batch.target.flatten())
    hidden = model.model.encoder(input_ids=torch.cat([batch.ids, batch.target], dim=1)).last_hidden_state
    cap, length, terms = model.final_logit_softcapping, batch.ids.shape[1], []
    for row, target in zip(hidden, batch.target.tolist(), strict=True):
        for place, token in enumerate(target):
            scores = torch.tanh(model.lm_head(row[length + place - 1]) / cap) * cap
            terms.append(-torch.log_softmax(scores, dim=-1)[token])
            if token == EOS:
                break
    return denoise, torch.stack(terms).mean()


def close(ours: Tensor | None, theirs: Tensor | None, name: str) -> None:
    assert ours is not None, name
    assert theirs is not None, name
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-3, msg=lambda text: f"{name}: {text}")


def run(network: DiffusionGemma, batch: TrainingBatch, draws: Draws, recompute: bool) -> tuple[Tensor, Tensor]:
    loss = uniform_loss(network, batch, draws, EOS, recompute=recompute)
    loss.total.backward()
    return loss.denoise, loss.causal


@pytest.mark.parametrize(("name", "rows"), [*zip(SHAPES, ("none", "some"), strict=True)])
def test_gradients_to_the_weights(name: str, rows: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    model = build(shape, seed=2)
    network = load_model(save(model, tmp_path), dtype="float32").network.requires_grad_(True)
    batch, draws = example(shape, CONDITIONED[rows])
    theirs = reference_losses(model, batch, draws)
    sum(theirs).backward()  # type: ignore[union-attr]
    ours = run(network, batch, draws, recompute=False)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.item() == pytest.approx(other.item(), abs=2e-5)
    gradients = {n: p.grad for n, p in model.named_parameters(remove_duplicate=False)}
    compared = 0
    for path, parameter in network.named_parameters():
        if "layer_scalar" in path or path.startswith("vision."):
            continue  # transformers has the scalars as buffers; there are no images
        if path.startswith("self_conditioning.") and not any(CONDITIONED[rows]):
            assert parameter.grad is None
            continue
        close(parameter.grad, gradients[released_name(path)], path)
        compared += 1
    assert compared > 40


def test_gradients_to_peft_matrices(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model  # seconds, in each process that collects the tests

    shape = SHAPES["prompt within the window"]
    plain = build(shape, seed=2)
    network = load_model(save(plain, tmp_path / "base"), dtype="float32").network
    made = get_peft_model(plain, LoraConfig(r=3, lora_alpha=5, target_modules=TARGETS)).eval()
    matrices = {n.replace(".default.", "."): p for n, p in made.named_parameters() if ".lora_" in n}
    draws = torch.Generator().manual_seed(0)
    for matrix in matrices.values():
        matrix.data.normal_(std=0.3 * matrix.shape[1] ** -0.5, generator=draws)
    made.save_pretrained(str(tmp_path / "adapter"))
    adapters = AdapterFiles.open(tmp_path / "adapter").read(network, LAYERS, network.device, network.dtype, 10**9)
    for adapter in adapters.values():
        adapter.requires_grad_(True)
    attach(network, adapters)

    batch, chance = example(shape, CONDITIONED["some"])
    theirs = reference_losses(made.base_model.model, batch, chance)
    sum(theirs).backward()  # type: ignore[union-attr]
    ours = run(network, batch, chance, recompute=True)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.item() == pytest.approx(other.item(), abs=2e-5)
    compared = set()
    for path, adapter in adapters.items():
        for mode, part in (("causal", adapter.causal), ("denoise", adapter.denoise)):
            if part is None:
                continue
            module = LAYERS.peft_name(Place(path, mode))  # type: ignore[arg-type]
            for letter, matrix in (("A", part.down), ("B", part.up)):
                name = tensor_name(module, letter)
                compared.add(name)
                assert isinstance(matrix, nn.Parameter)
                close(matrix.grad, matrices[name].grad, name)
    assert compared == matrices.keys()
    assert all(parameter.grad is None for parameter in network.parameters())  # the base is frozen
