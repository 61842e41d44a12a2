"""The section of kernels: each against its oracle, at the real shapes on a GPU, in a tiny network on a CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import torch

from engine import catalog, kernels
from engine.benchmarks.measuring import random_network
from engine.checks.kernel_checks import linear_check
from engine.checks.network_checks import network_checks
from engine.checks.oracle import OracleCheck, judge, normal, packed
from engine.config import ModelConfig
from engine.doctor.reporter import Found, Reporter
from engine.memory.device import Placement
from engine.models.folder import ModelFolder
from engine.quant import INT4, PRECISIONS, UINT4, Scheme

REPEATS = 12  # on a card, where a race may show in one run of many
CONTEXTS = (40, 32_768)  # tokens before a canvas; the long one on a card alone
SCHEMES = ("int4", "nf4", "nvfp4")  # of experts; all else is alike in them


def run(reporter: Reporter, device: str) -> None:
    """Checks the kernels that this device has."""
    placement = Placement(torch.device(device), torch.bfloat16, "asked for")
    contexts = CONTEXTS if placement.device.type == "cuda" else CONTEXTS[:1]
    for name in SCHEMES:
        with torch.inference_mode():
            network = random_network(two_layers(placement.device), PRECISIONS[name], placement)
            for check in network_checks(network, contexts=contexts):
                if name == SCHEMES[0] or check.kernel == "experts":
                    reporter.check(f"{check.kernel} {name}, {check.where}", partial(_judged, check.make, placement))
    for scheme in (INT4, UINT4):
        make = partial(_dense, scheme, placement)
        reporter.check(f"linear {scheme}, a dense model's", partial(_judged, make, placement))
    why = kernels.why_plain(placement.device)
    reporter.fact("checked", "the kernels of cards, at real shapes" if why is None else f"the processor's alone: {why}")


def two_layers(device: torch.device) -> ModelConfig:
    """Returns the config of DiffusionGemma 26B-A4B with a layer of each kind; on a CPU with all its sizes tiny."""
    real = ModelFolder.open(catalog.shape("26b-a4b").folder).config
    sliding, full = (next(layer for layer in real.layers if layer.is_sliding is wanted) for wanted in (True, False))
    if device.type == "cuda":
        return dataclasses.replace(real, layers=(sliding, full))
    return dataclasses.replace(
        real,
        hidden_size=128,
        intermediate_size=64,
        moe_intermediate_size=64,
        num_experts=6,
        top_k_experts=2,
        num_attention_heads=4,
        layers=(
            dataclasses.replace(sliding, head_dim=16, num_key_value_heads=2),
            dataclasses.replace(full, head_dim=32, num_key_value_heads=1),
        ),
        sliding_window=16,
        vocab_size=520,
        canvas_length=12,
        vision=None,  # it has no kernels of its own
    )


def _dense(scheme: Scheme, placement: Placement) -> OracleCheck:
    """Checks a product of few tokens by 4 bits, as dense models have them, with rows that no tile divides."""
    size = 2816 if placement.device.type == "cuda" else 128
    weight = packed(size - 26, size, scheme=scheme, device=placement.device, seed=1)
    x = normal(16, size, device=placement.device, dtype=placement.dtype, seed=2)
    return linear_check(kernels.linear, x, weight)


def _judged(make: Callable[[], OracleCheck], placement: Placement) -> Found:
    on_card = placement.device.type == "cuda"
    with torch.inference_mode():
        verdict = judge(make(), REPEATS if on_card else 2, with_mixups=on_card)
    torch.cuda.empty_cache()  # does nothing where no card is in use
    return verdict.ok, verdict.said
