"""A published Nemotron folder with its draft adapter: loaded, packed, and decoded to one greedy text."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine import Model, StepFinished, generate, load_model
from engine.models.folder import quantize
from engine.store_files import DRAFT_FOLDER
from tests.engine.golden.causal_reference import YARN, build, save


def run_of(model: Model, decoder: str) -> tuple[list[int], list[list[int]]]:
    """The text, and what each pass predicted."""
    config = model.generation_defaults.replace(
        decoder=decoder, max_new_tokens=40, eos_token_ids=(), sampling_temperature=0.0
    )
    *events, end = generate(model, range(7, 19), config)
    return end.tokens.tolist(), [event.candidates.tolist() for event in events if isinstance(event, StepFinished)]


def test_the_draft_adapter_of_a_checkpoint_changes_drafts_alone(tmp_path: Path) -> None:
    shape = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16, "max_position_embeddings": 256}
    theirs = build("ministral3", rope_parameters={**YARN, "llama_4_scaling_beta": 0.3}, **shape)
    folder = save(theirs, tmp_path / "plain", "nemotron_labs_diffusion")
    before = load_model(folder, device="cpu")
    assert before.draft is None
    draws, tensors = torch.Generator().manual_seed(1), dict[str, Tensor]()
    for layer in range(3):
        for letter, size in (("A", (4, 64)), ("B", (64, 4))):
            name = f"base_model.model.encoder.layers.{layer}.self_attn.o_proj.lora_{letter}.weight"
            tensors[name] = torch.randn(size, generator=draws)
    (folder / DRAFT_FOLDER).mkdir()
    save_file(tensors, folder / DRAFT_FOLDER / "adapter_model.safetensors")
    after = load_model(folder, device="cpu")
    assert after.draft is not None
    for decoder in ("autoregressive", "masked_diffusion"):
        assert run_of(after, decoder) == run_of(before, decoder)
    text, drafted = run_of(after, "self_speculation")
    assert drafted != run_of(before, "self_speculation")[1]
    assert text == run_of(after, "autoregressive")[0]

    quantize(folder, tmp_path / "packed", "int4", torch.device("cpu"))
    packed = load_model(tmp_path / "packed", device="cpu", dtype="float32")
    assert packed.draft is not None
    assert run_of(packed, "self_speculation")[0] == run_of(packed, "autoregressive")[0]
