"""Checks of the kernels before and after the layers' products: router, embeddings, rope tables, a step's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.checks.operands import other_scales
from engine.checks.oracle import EXACT, OracleCheck, Outputs
from engine.checks.product_checks import tolerance
from engine.config import GenerationConfig
from engine.decoding import sampling
from engine.decoding.acceptance import rule_of
from engine.decoding.step_program import knobs_of
from engine.kernels import reference_step as plain
from engine.kernels.reference_step import VocabularyResult
from engine.layers.rope import cos_sin
from engine.quant import Packed, unpack

Route = Callable[[Tensor, Tensor, Tensor, int], Outputs]
EmbedRows = Callable[[Tensor, Packed, Tensor, int, float, float], Tensor]
RopeTables = Callable[[Tensor, int, int, Tensor, torch.dtype], Outputs]
EPS = 1e-6
STEP = 4  # that is settled


@dataclass(frozen=True, eq=False)
class Unsettled:
    """A canvas after a step's predictions, before they are settled. C positions."""

    canvas: Tensor  # (C,) int64
    kept: Tensor  # (C,) bool
    pinned: Tensor  # (C,) int32, -1 where free
    previous: Tensor  # (C,) int64, the argmax of the step before
    noise: Tensor  # (C,) int64


Settle = Callable[[VocabularyResult, Unsettled, Tensor], Outputs]


def router_check(run: Route, x: Tensor, weight: Tensor, expert_scales: Tensor, top_k: int) -> OracleCheck:
    """Checks ``route``: x (N, H), weight (E, H), scales (E,). In bf16 a fiftieth of the choices may differ."""

    def oracle(x: Tensor, weight: Tensor, expert_scales: Tensor) -> Outputs:
        scores = F.linear(x.float(), weight.float()).to(x.dtype).float()
        best, chosen = scores.softmax(-1).sort(dim=-1, descending=True, stable=True)
        shares = best[:, :top_k] / best[:, :top_k].sum(-1, keepdim=True)
        return shares * expert_scales.float()[chosen[:, :top_k]], chosen[:, :top_k]

    return OracleCheck(
        run=lambda: run(x, weight, expert_scales, top_k),
        oracle=partial(oracle, x, weight, expert_scales),
        mixups={
            "the neighbouring expert's scale": partial(oracle, x, weight, expert_scales.roll(1)),
            "the neighbouring expert's row": partial(oracle, x, weight.roll(1, 0), expert_scales),
            "the neighbouring input": partial(oracle, x.roll(1, -1), weight, expert_scales),
        },
        tolerances=(tolerance(x.dtype), 0.02 if x.dtype == torch.bfloat16 else EXACT),
    )


def embed_rows_check(run: EmbedRows, ids: Tensor, table: Packed, fed: Tensor, text: int) -> OracleCheck:
    """Checks ``embed_rows``: ids (T,), a packed table (V, H), fed (T - text, H)."""
    scale = fed.shape[1] ** 0.5

    def oracle(ids: Tensor, table: Packed, fed: Tensor) -> Outputs:
        rows = unpack(table.part(ids)) * scale
        return (torch.cat([rows[:text], plain.norm(rows[text:] + fed.float(), None, EPS)]),)

    return OracleCheck(
        run=lambda: (run(ids, table, fed, text, scale, EPS),),
        oracle=partial(oracle, ids, table, fed),
        mixups={
            "the neighbouring token": partial(oracle, ids.roll(1), table, fed),
            "the neighbouring tokens' scales": partial(oracle, ids, other_scales(table), fed),
            "another row's self-conditioning": partial(oracle, ids, table, fed.roll(1, 0)),
        },
        tolerances=(tolerance(fed.dtype),),
    )


def rope_check(run: RopeTables, frequencies: Tensor, start: int, count: int, dtype: torch.dtype) -> OracleCheck:
    """Checks ``rope_tables``: frequencies (D / 2,) and positions from ``start`` on, also large ones."""
    device = frequencies.device

    def oracle(start: int) -> Outputs:
        return cos_sin(torch.arange(start, start + count, device=device), frequencies, torch.float32)

    return OracleCheck(
        run=lambda: run(torch.tensor([start + 3], device=device), -3, count, frequencies, dtype),
        oracle=partial(oracle, start),
        mixups={"the place behind": partial(oracle, start + 1), "the place before": partial(oracle, start - 1)},
        tolerances=(tolerance(dtype), tolerance(dtype)),
    )


def settle_check(run: Settle, found: VocabularyResult, before: Unsettled, config: GenerationConfig) -> OracleCheck:
    """Checks ``settle``: outputs tokens (4, C), the next canvas, kept places (C,), flags and counters.

    The run takes the settings as knobs (5,). An argmax as before is the same for the third time.
    """
    rule, device = rule_of(config), before.noise.device
    knobs = torch.tensor(knobs_of(config)[3:], device=device)

    def oracle(found: VocabularyResult, before: Unsettled) -> Outputs:
        accepted = rule(found, before.canvas, before.kept)
        following = sampling.renoise(accepted.candidates, accepted.mask, before.noise)
        unchanged = 3 if torch.equal(found.argmax, before.previous) else 0
        is_sure = unchanged >= config.stability_threshold and bool(found.entropy.mean() < config.confidence_threshold)
        tokens = torch.stack([found.argmax, accepted.candidates, accepted.mask.long(), following])
        counts = [is_sure or bool(accepted.is_finished), int(found.nonfinite), unchanged, STEP + 1, 31]
        kept = accepted.mask if rule.keeps else before.pinned >= 0
        return tokens, following, kept.long(), torch.tensor(counts, device=device)

    def mixed(name: str) -> Callable[[], Outputs]:
        if hasattr(before, name):
            return partial(oracle, found, replace(before, **{name: getattr(before, name).roll(1)}))
        return partial(oracle, replace(found, **{name: getattr(found, name).roll(1)}), before)

    read = {
        "entropy_bound": ("entropy", "candidate", "noise"),
        "entropy_bound_kept": ("entropy", "kept", "canvas", "noise"),
        "confidence_threshold": ("probability", "kept", "canvas", "noise"),
    }
    return OracleCheck(
        run=lambda: run(found, before, knobs),
        oracle=partial(oracle, found, before),
        mixups={f"another position's {name}": mixed(name) for name in read[config.acceptance]},
        tolerances=(EXACT, EXACT, EXACT, EXACT),
    )
