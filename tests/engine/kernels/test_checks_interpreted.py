"""All checks of a network's kernels, in the interpreter: right kernels pass, and a broken one is named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from engine import kernels
from engine.benchmarks.measuring import random_network
from engine.checks.network_checks import LayerCheck, network_checks
from engine.checks.oracle import judge
from engine.decoders import ACCEPTANCE
from engine.doctor.kernels import two_layers
from engine.kernels import norms, settle
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import PRECISIONS

CPU = torch.device("cpu")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[DiffusionGemma]:
    """One whose device passes for a card."""
    made = random_network(two_layers(CPU), PRECISIONS["int4"], Placement(CPU, torch.float32, "asked for"))
    monkeypatch.setattr(kernels, "run_on", lambda *_: True)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield made
    torch.set_num_threads(before)


def wrong(checks: list[LayerCheck]) -> dict[str, str]:
    found = {f"{check.kernel}, {check.where}": judge(check.make(), repeats=1) for check in checks}
    return {name: verdict.said for name, verdict in found.items() if not verdict.ok}


@torch.inference_mode()
def test_right_kernels_pass(network: DiffusionGemma) -> None:
    checks = list(network_checks(network))
    assert {check.kernel for check in checks} == {
        *("linear", "experts", "attention", "norms", "rope", "router", "sort", "embed_rows", "settle", "vocabulary"),
    }
    assert wrong(checks) == {}


@torch.inference_mode()
def test_a_broken_kernel_is_named(network: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    right, settle_right = norms.add_norm, settle.settle

    def mixed_up(x: Any, y: Any, post: Any, pre: Any, *more: Any, **named: Any) -> Any:
        return right(x, y, post, pre.roll(1, 0), *more, **named)

    def late(found: Any, noise: Any, *more: Any) -> None:
        settle_right(found, noise.roll(1), *more)

    monkeypatch.setattr(norms, "add_norm", mixed_up)
    monkeypatch.setattr(settle, "settle", late)
    found = wrong([check for check in network_checks(network) if check.kernel in ("norms", "settle")])
    said = found.pop("norms, after attention")
    assert said.endswith("oracle; it is much like what another norm's weights would give")
    assert set(found) == {f"settle, by {rule}" for rule in ACCEPTANCE}
