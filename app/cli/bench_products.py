"""``safelight bench --products``: measures the products of this processor, keeps the times and prints them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from app.cli import running, terminal
from app.cli.stopping import STOPPED, stopping

if TYPE_CHECKING:
    from engine.benchmarks.products import ProductCandidate
    from engine.kernels.measurement import Measurement


def run(*, as_json: bool) -> int:
    """Measures for about half a minute; Ctrl+C ends it, and nothing is kept."""
    from engine.benchmarks.products import measure_products  # imports torch
    from engine.kernels import measured  # see above

    with stopping() as stop, terminal.progress("Measuring products") as show:
        made = measure_products(lambda share, what: show(share, what), stop)
    if made is None:
        terminal.say("stopped; nothing was kept")
        return STOPPED
    place = measured.keep(made.measurement) if made.is_quiet else None
    if as_json:
        kept = {"kept": None if place is None else str(place), "disturbed": made.disturbed}
        running.print_json(made.measurement.as_dict() | kept)
        return 0
    _print(made.measurement)
    if place is None:
        print("\nOther programs were busy, so this is not kept. Measure again while nothing else runs.")
    else:
        print(f"\nKept in {place}; kernels are chosen by it from the next start on.")
    return 0


def _print(made: Measurement) -> None:
    from engine.benchmarks.products import CANDIDATES, ROWS  # imports torch
    from engine.kernels import cpu_int4, cpu_int8  # see above

    console, columns = terminal.console(sys.stdout), [str(rows) for rows in ROWS]
    setting = made.setting
    every = sorted({time.threads for time in made.times})
    console.print(f"{setting.processor}, {setting.units}; torch {setting.torch}\n", soft_wrap=True)
    speeds = terminal.table("products with a large matrix, GFLOP/s by rows", "product", "threads", *columns)
    others = terminal.table("all else, ms by rows", "part", "threads", *columns)
    for candidate in CANDIDATES:
        for threads in every:
            if not made.has(candidate.name, threads) or candidate.name == "read":
                continue
            is_product = candidate.sizes[-1][0] == candidate.sizes[-1][1]
            (speeds if is_product else others).add_row(
                candidate.what, str(threads), *_cells(made, candidate, threads, is_product)
            )
    console.print(speeds)
    console.print()
    console.print(others)
    console.print()
    for threads in every:
        rate = 4 / made.per_weight("read", threads) / 1e9
        console.print(f"{threads} of {setting.threads} threads read {rate:.1f} GB/s of weights from memory.")
    limits = [
        ("4 bits", made.most_rows("int4 torch", "int4 decoded", every[-1]), cpu_int4.FEW),
        ("8 bits", made.most_rows("int8 torch", "int8 decoded", every[-1]), cpu_int8.FEW),
    ]
    for name, limit, usual in limits:
        if limit is not None:
            reach = (
                "at all rows" if limit > max(ROWS) else f"up to {limit} rows, decoded for more" if limit else "never"
            )
            console.print(f"{name}: torch's kernel {reach} (without a measurement: up to {usual} rows).")


def _cells(made: Measurement, candidate: ProductCandidate, threads: int, is_product: bool) -> list[str]:
    """Returns what was measured with the largest matrix, by rows; empty where it was not."""
    from engine.benchmarks.products import ROWS  # imports torch

    found = []
    for rows in ROWS:
        if rows not in candidate.rows:
            found.append("")
            continue
        inputs, outputs = candidate.sizes[-1]
        seconds = made.seconds(candidate.name, threads, inputs * outputs, rows)
        found.append(f"{2e-9 * inputs * outputs * rows / seconds:.0f}" if is_product else f"{1e3 * seconds:.3f}")
    return found
