"""What NVFP4 activations cost beside NVFP4 weights: errors of the 26B's matrices, and of the logits of small models.

``python -m tests.bench.nvfp4 [--json]``. Inputs are rounded as ``engine.kernels.expert_w4a4`` does: a row is a matrix
of its own. In models experts alone have four bits, and are rounded either for text alone, as the option does it, or
for the canvas, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from engine import load_model
from engine.benchmarks.random_network import random_network
from engine.catalog import SKILLS, SUDOKU
from engine.doctor.shapes import tiny
from engine.kernels.reference import experts_w4a4, round_rows_nvfp4
from engine.layers.packed_linear import PackedExperts
from engine.memory.device import Placement
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import NVFP4, PRECISIONS, pack, unpack
from tests.bench.activations import apart, made_up, tasks

SHAPES = (("gate, up", 2816, 1408), ("down", 704, 2816))
PROMPTS = 20


@dataclass(frozen=True)
class MatrixError:
    """Relative RMS errors of one product of an expert, for one sort of activations."""

    matrix: str
    activations: str
    weights: float  # of NVFP4 weights alone, against exact ones
    inputs: float  # of NVFP4 inputs, against exact ones, with the same weights
    both: float  # of both, against neither


def measure_matrices() -> Iterator[MatrixError]:
    """Random matrices of the 26B's shapes."""
    draws = torch.Generator().manual_seed(0)
    for matrix, inputs, outputs in SHAPES:
        exact = torch.randn(outputs, inputs, generator=draws)
        weight = unpack(pack(exact, NVFP4))
        for sort in ("normal", "t3", "outliers", "gated"):
            x = made_up(sort, inputs, draws)
            rounded = round_rows_nvfp4(x) @ weight.T
            yield MatrixError(
                matrix=matrix,
                activations=sort,
                weights=apart(x @ weight.T, x @ exact.T),
                inputs=apart(rounded, x @ weight.T),
                both=apart(rounded, x @ exact.T),
            )


@dataclass(frozen=True)
class LogitsError:
    """Of a canvas's logits, against the same NVFP4 weights with exact inputs; means over prompts."""

    model: str
    rounded: str
    error: float  # relative RMS
    argmax_agrees: float  # share of positions
    kl: float  # nats a position, of the exact distribution from the rounded one


def measure_logits() -> Iterator[LogitsError]:
    """A random network of the doctor's tiny shape, and the embedded models on held-out tasks."""
    placement = Placement(torch.device("cpu"), torch.float32, "asked for")
    config = dataclasses.replace(tiny(), canvas_length=64)
    made, draws = random_network(config, PRECISIONS["nvfp4"], placement), torch.Generator().manual_seed(0)
    asked = [torch.randint(config.vocab_size, (100,), generator=draws) for _ in range(PROMPTS)]
    yield from _compare("random", made, asked)
    for name in (SKILLS, SUDOKU):
        model = load_model(name, device="cpu", dtype="float32", quantization="nvfp4")
        prompts = [model.chat_ids([{"role": "user", "content": task.prompt}]) for task in tasks(name, PROMPTS)]
        assert isinstance(model.network, DiffusionGemma)
        yield from _compare(name, model.network, [torch.as_tensor(ids) for ids in prompts])


def _compare(name: str, network: DiffusionGemma, prompts: list[Tensor]) -> Iterator[LogitsError]:
    exact = [_logits(network, ids, False, False) for ids in prompts]
    for rounded, canvas in (("text", False), ("text and canvas", True)):
        found = [_logits(network, ids, True, canvas) for ids in prompts]
        pairs = [(one.log_softmax(-1), other.log_softmax(-1)) for one, other in zip(exact, found, strict=True)]
        yield LogitsError(
            model=name,
            rounded=rounded,
            error=apart(torch.stack(found), torch.stack(exact)),
            argmax_agrees=float(torch.stack([(p.argmax(-1) == q.argmax(-1)).float().mean() for p, q in pairs]).mean()),
            kl=float(torch.stack([(p.exp() * (p - q)).sum(-1).mean() for p, q in pairs]).mean()),
        )


def _logits(network: DiffusionGemma, ids: Tensor, text: bool, canvas: bool) -> Tensor:
    """A prompt, and a canvas of noise behind it."""
    cache, draws = network.new_cache(), torch.Generator().manual_seed(1)
    _round_experts(network, text)
    network.prefill(ids, cache)
    _round_experts(network, canvas)
    noise = torch.randint(network.config.vocab_size, (network.config.canvas_length,), generator=draws)
    return network.denoise(noise, cache)


def _round_experts(network: DiffusionGemma, rounds: bool) -> None:
    for module in network.modules():
        if isinstance(module, PackedExperts):
            both = {"gate_up": module.gate_up_proj.packed, "down": module.down_proj.packed}
            module.forward = partial(experts_w4a4, **both) if rounds else partial(PackedExperts.forward, module)


def main() -> None:
    """Print a line, or with ``--json`` an object, for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with torch.inference_mode():
        for row in (*measure_matrices(), *measure_logits()):
            facts = dataclasses.asdict(row)
            told = "  ".join(
                f"{key} {value:.4f}" if isinstance(value, float) else value for key, value in facts.items()
            )
            print(json.dumps(facts) if args.json else told, flush=True)


if __name__ == "__main__":
    main()
