"""Checks the vocabulary stage: best token, draw, their statistics, soft embedding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from engine.checks.operands import other_scales
from engine.checks.oracle import EXACT, OracleCheck, Outputs
from engine.checks.product_checks import tolerance
from engine.kernels import reference_step as plain
from engine.kernels.reference_step import VocabularyResult
from engine.quant import BF16, Activations, Packed

Stage = Callable[..., VocabularyResult]
CAP = 30.0


def vocabulary_check(
    run: Stage,
    hidden: Tensor,
    table: Packed,
    forbidden: Tensor | None = None,
    pinned: Tensor | None = None,
    rough: tuple[float, float] = (0.02, 0.05),
    activations: Activations = BF16,
    canvases: int = 1,
) -> OracleCheck:
    """Checks ``vocabulary_stage``: hidden (C, H), a packed table (V, H). The oracle rounds ``activations``, too.

    In bf16 two tokens may be nearly tied: ``rough`` are the shares of best tokens and of draws that may differ.
    Each of several ``canvases`` has some of the rows, in turn, and its own temperature and draw.
    """

    def outputs(stage: Stage, hidden: Tensor, table: Packed, step: int = 3, shift: int = 0) -> Outputs:
        found = stage(
            hidden,
            table,
            **_draws(hidden, canvases, step, shift),
            cap=CAP,
            embed_scale=hidden.shape[1] ** 0.5,
            forbidden=forbidden,
            pinned=pinned,
            activations=activations,
        )
        numbers = (part[None] for part in (found.entropy, found.probability, found.logsumexp))
        return found.argmax, found.candidate, *numbers, found.soft, found.nonfinite

    oracle, states = partial(outputs, plain.vocabulary_stage), hidden.float()
    is_rough = hidden.dtype == torch.bfloat16
    other_run = partial(oracle, states, table, shift=1)
    return OracleCheck(
        run=partial(outputs, run, hidden, table),
        oracle=partial(oracle, states, table),
        mixups={
            "the neighbouring tokens' scales": partial(oracle, states, other_scales(table)),
            "the neighbouring position": partial(oracle, states.roll(1, 0), table),
            "another step's draw": partial(oracle, states, table, step=4),
            **({"another run's settings": other_run} if canvases > 1 else {}),
        },
        tolerances=(
            *(rough if is_rough else (EXACT, EXACT)),
            *((0.005, 0.05, 0.005) if is_rough else (1e-4, 1e-4, 1e-4)),
            tolerance(hidden.dtype),
            EXACT,
        ),
    )


def _draws(hidden: Tensor, canvases: int, step: int, shift: int) -> dict[str, Tensor]:
    """Returns temperatures and draws for hidden (C, H): of one canvas, or of each row's own."""
    rows = torch.arange(len(hidden), device=hidden.device)
    if canvases == 1:
        return {
            "temperature": rows.new_tensor([0.6], dtype=torch.float32),
            "draw": rows.new_tensor([(1 << 40) + 7, step]),
        }
    own = (rows % canvases).roll(shift)
    return {"temperature": 0.5 + 0.1 * own, "draw": torch.stack([(1 << 40) + own, step + own, rows // canvases], dim=1)}
