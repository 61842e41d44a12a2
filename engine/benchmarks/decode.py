"""Measures passes of few rows of a model's shape with random weights, as causal models decode. Prints nothing.

No checkpoint is needed, as in ``step``. A pass reads the whole text before it and predicts after each of its rows. One
row is autoregressive decoding; 16 and 32 rows are a window of masks or a block. The number of tokens per pass depends
on the model's weights and the decoder, so no tokens per second are given here.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

import torch

from engine.benchmarks.measuring import (
    bytes_of,
    copy_bandwidth,
    forget_peak,
    memory_figures,
    percentile_95,
    prefilled,
    require_context,
    subject_figures,
    timed,
)
from engine.benchmarks.random_network import Report, randomised, silent
from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.memory.device import Placement
from engine.models.registry import Family
from engine.quant import Precision

ROWS = (1, 8, 16, 32)
PASSES = 16  # passes of each number of rows, after one that warms up


@dataclass(frozen=True)
class PassTime:
    """The time of a pass with this number of rows."""

    rows: int
    ms_median: float
    ms_p95: float
    read_gb_s: float  # weight bytes over the pass's time
    floor_share: float  # weight bytes at the copy's bandwidth, over the pass's time


@dataclass(frozen=True)
class DecodingResult:
    """The measurements. Times in ms, bytes decimal."""

    shape: str
    device: str
    precision: dict[str, str | None]
    context: int  # tokens before the rows
    threads: int  # of the processor that a pass takes; 0 on a GPU
    plain_reason: str | None  # why kernels did not run
    passes: list[PassTime]
    weight_bytes: int  # bytes read in a pass: everything but a token table that is not also the head
    bandwidth_gb_s: float  # of a copy on this device, bytes read and written
    peak_memory_mb: float | None
    peak_memory_note: str
    plan_bytes: int | None  # planned memory of the whole
    peak_of_plan: float | None  # the peak over the plan; None if one is unknown, or they do not count the same
    device_memory_mb: float | None  # used on a GPU by all programs

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the command line prints it with ``--json``."""
        return asdict(self)


def measure_decoding(
    name: str,
    family: Family,
    config: ModelConfig,
    precision: Precision,
    placement: Placement,
    context: int = 1024,
    passes: int = PASSES,
    plan_bytes: int | None = None,
    report: Report = silent,
) -> DecodingResult:
    """Builds a shape and times its passes.

    Args:
        context: tokens in the cache before the rows.
        passes: timed passes of each number of rows.
        plan_bytes: planned memory of the whole, for the result.
        report: called with a few words after each part of the work.

    Raises:
        SafelightError: the context does not fit the model, the device is too small, or logits are not finite.
    """
    require_context(context, config, max(ROWS))
    device = placement.device
    bandwidth = copy_bandwidth(device)
    with torch.device("meta"):
        empty = family.build(config)
    network = randomised(empty, precision, placement, 0, report)
    forget_peak(device)
    cache, _ = prefilled(network, context, max(ROWS))
    report(f"prefilled {context} tokens")
    weight_bytes = bytes_of(network)
    if getattr(network, "lm_head", None) is not None:
        weight_bytes -= bytes_of(network.get_submodule("embed_tokens"))

    def timed_pass(rows: int) -> PassTime:
        ids = torch.arange(rows, device=device) % config.vocab_size
        if not network.decode(ids, cache, 0).isfinite().all():
            raise SafelightError(f"a pass gave logits that are not numbers on {device}: a kernel is wrong")
        each = timed(device, lambda: network.decode(ids, cache, 0), passes)
        median, rate = statistics.median(each), weight_bytes / (statistics.median(each) / 1e3)  # ms, bytes/s
        report(f"took {passes} passes of {rows} rows, {median:.0f} ms each")
        return PassTime(rows, median, percentile_95(each), rate / 1e9, rate / bandwidth)

    times = [timed_pass(rows) for rows in ROWS]
    return DecodingResult(
        passes=times,
        weight_bytes=weight_bytes,
        bandwidth_gb_s=bandwidth / 1e9,
        **subject_figures(name, precision, device, context),
        **memory_figures(device, plan_bytes),
    )
