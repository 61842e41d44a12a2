"""The adapter with which a model drafts: read from a checkpoint's folder, on in drafting passes alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine import SafelightError
from engine.adapters.draft import TARGETS, DraftAdapter, read_draft
from engine.adapters.lora import Adapters, LayerAdapter, LowRank, attach
from engine.adapters.peft_files import save_adapter
from engine.models.causal.network import CausalNetwork
from engine.models.folder import quantize
from engine.store_files import DRAFT_FOLDER as FOLDER
from tests.engine.causal import masked_network
from tests.engine.packing import released

PATH = "layers.{}.self_attn.o_proj"
NAME = f"base_model.model.encoder.{PATH}.lora_{{}}.weight"


def matrices(rank: int, seed: int = 0) -> dict[str, Tensor]:
    """Matrices as published, for two layers of 32 inputs and 16 outputs."""
    draws = torch.Generator().manual_seed(seed)
    shapes = {"A": (rank, 32), "B": (16, rank)}
    return {NAME.format(i, side): torch.randn(shapes[side], generator=draws) for i in range(2) for side in "AB"}


def adapters(tensors: dict[str, Tensor], scaling: float) -> Adapters:
    found = {}
    for index in range(2):
        down, up = tensors[NAME.format(index, "A")], tensors[NAME.format(index, "B")]
        low_rank = LowRank(32, 16, len(down), scaling).requires_grad_(False)
        low_rank.down.copy_(down)
        low_rank.up.copy_(up)
        found[PATH.format(index)] = LayerAdapter(low_rank, low_rank)
    return found


def read(folder: Path, network: CausalNetwork) -> DraftAdapter | None:
    return read_draft(folder, network, network.device, network.dtype, free_bytes=10**6)


def logits(network: CausalNetwork, is_causal: bool = False) -> Tensor:
    return network.decode(torch.arange(5), network.new_cache(), 0, is_causal=is_causal)


def test_what_a_published_folder_adds_and_when(tmp_path: Path) -> None:
    """Every layer's weight plus 4 B A while it is on, next to another adapter; nothing before and after."""
    network, tensors = masked_network(0), matrices(rank=3)
    assert read(tmp_path, network) is None
    (tmp_path / FOLDER).mkdir()
    save_file(tensors, tmp_path / FOLDER / "adapter_model.safetensors")
    draft = read(tmp_path, network)
    assert draft is not None
    attach(network, {PATH.format(0): adapters(matrices(2, seed=1), 1.0)[PATH.format(0)]})
    before = logits(network)
    with draft.on():
        found = logits(network)
    assert torch.equal(logits(network), before)

    merged = masked_network(0)
    for index in range(2):
        down, up = tensors[NAME.format(index, "A")], tensors[NAME.format(index, "B")]
        merged.get_submodule(PATH.format(index)).weight += 4.0 * up @ down
    attach(merged, {PATH.format(0): adapters(matrices(2, seed=1), 1.0)[PATH.format(0)]})
    torch.testing.assert_close(found, logits(merged), atol=1e-4, rtol=1e-4)


def test_a_config_next_to_it_gives_the_scaling(tmp_path: Path) -> None:
    network = masked_network(0)
    save_adapter(tmp_path / FOLDER, adapters(matrices(2), 1.5), TARGETS, "", "", torch.float32)
    draft = read(tmp_path, network)
    assert draft is not None
    with draft.on():
        found = logits(network)
    attach(network, adapters(matrices(2), 1.5))
    assert torch.equal(found, logits(network))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({NAME.format(1, "A"): torch.zeros(4, 32)}, "has rank 4"),
        ({NAME.format(1, "B"): torch.zeros(17, 3)}, r"has shape \(17, 3\)"),
        ({NAME.format(0, "A"): torch.full((3, 32), torch.nan)}, "not finite"),
        ({NAME.format(2, "A"): torch.zeros(3, 32)}, "a layer that this model lacks"),
        ({"base_model.model.encoder.layers.0.mlp.up_proj.lora_A.weight": torch.zeros(3, 16)}, "not known"),
    ],
)
def test_what_is_wrong_with_it_is_said_in_a_line(changes: dict[str, Tensor], message: str, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    save_file(matrices(3) | changes, tmp_path / FOLDER / "adapter_model.safetensors")
    with pytest.raises(SafelightError, match=message) as caught:
        read(tmp_path, masked_network(0))
    assert "\n" not in str(caught.value)


def test_a_store_takes_it_along_and_through_no_link(tmp_path: Path) -> None:
    source, outside, cancel = released(tmp_path / "source"), tmp_path / "outside", threading.Event()
    (source / FOLDER).mkdir()
    save_file(matrices(3), source / FOLDER / "adapter_model.safetensors")
    quantize(source, tmp_path / "store", "nf4", torch.device("cpu"))
    found, given = ((folder / FOLDER / "adapter_model.safetensors") for folder in (tmp_path / "store", source))
    assert found.read_bytes() == given.read_bytes()

    with pytest.raises(SafelightError, match="cancelled"):
        quantize(source, tmp_path / "begun", "nf4", torch.device("cpu"), lambda _: cancel.set(), cancel)
    outside.mkdir()
    (tmp_path / "begun" / FOLDER).symlink_to(outside)
    with pytest.raises(SafelightError, match="is a link"):
        quantize(source, tmp_path / "begun", "nf4", torch.device("cpu"))
    assert not list(outside.iterdir())
