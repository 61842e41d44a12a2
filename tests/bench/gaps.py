"""Held-out texts with a gap: how often a small model fills them exactly, and how long it takes.

``python -m tests.bench.gaps [--model safelight-gaps] [--count 500] [--json]``. The same texts twice: with the number
of the gap's tokens given, and with a hole of up to 16 tokens for all. Then requests are timed on canvases of 16, 32 and
64 rows, and a run that is cancelled at its first step.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Sequence

from engine import Model, infill, load_model
from engine.config import USUAL_HOLE
from engine.tasks import gaps
from engine.text.outline import INSTRUCTION

SIZES = ((1, 2), (3, 5), (6, 9), (10, 13))  # of gaps, in characters
ROWS = (16, 32, 64)  # of canvases
TIMED = 40  # requests of each


def filled(model: Model, gap: gaps.GapExample, seed: int, length: int | None, rows: int | None = None) -> str:
    config = model.generation_defaults.replace(canvas_length=rows)
    found = infill(
        model,
        gap.prefix,
        gap.suffix,
        length=length,
        max_tokens=USUAL_HOLE if rows is None else rows // 2,
        instruction=INSTRUCTION,
        seed=seed,
        config=config,
    )
    return found.text if found else ""


def exactness(model: Model, texts: Sequence[gaps.GapExample]) -> dict[str, object]:
    """Returns the share of the texts that are filled exactly, by kind and by length of the gap."""
    right: dict[str, dict[str, list[bool]]] = {"told": defaultdict(list), "unknown": defaultdict(list)}
    for seed, gap in enumerate(texts):
        size = next(f"{least} to {most}" for least, most in SIZES if len(gap.answer) <= most)
        for form, length in (("told", len(gap.answer)), ("unknown", None)):
            is_right = filled(model, gap, seed, length) == gap.answer
            for group in ("all", gap.kind, size):
                right[form][group].append(is_right)
    return {
        form: {group: (round(sum(all_of) / len(all_of), 4), len(all_of)) for group, all_of in groups.items()}
        for form, groups in right.items()
    }


def times(model: Model, texts: Sequence[gaps.GapExample]) -> dict[int, tuple[float, float]]:
    """Returns milliseconds of a request, median and 95th percentile, by the rows of its canvas."""
    found = dict[int, tuple[float, float]]()
    for rows in ROWS:
        fitting = [gap for gap in texts if rows // 2 + len(gap.suffix) < rows][:TIMED]
        took = list[float]()
        for seed, gap in enumerate(fitting):
            clock = time.perf_counter()
            filled(model, gap, seed, None, rows)
            took.append(1e3 * (time.perf_counter() - clock))
        found[rows] = statistics.median(took), statistics.quantiles(took, n=20)[-1]
    return found


def cancelled(model: Model, gap: gaps.GapExample) -> float:
    """Returns the milliseconds from a cancel to the end of the request."""
    cancel, ended = threading.Event(), list[float]()

    def ask() -> None:
        infill(model, gap.prefix, gap.suffix, seed=1, cancel=cancel)
        ended.append(time.perf_counter())

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.01)
    clock = time.perf_counter()
    cancel.set()
    thread.join()
    return 1e3 * max(0.0, ended[0] - clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="safelight-gaps")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model, rng = load_model(options.model, device="cpu", threads=options.threads), random.Random(5)
    texts = [gaps.sample(rng, "test") for _ in range(options.count)]
    exact, took = exactness(model, texts), times(model, texts)
    stopped = statistics.median(cancelled(model, gap) for gap in texts[:20])
    if options.json:
        print(json.dumps({"exact": exact, "ms by rows": took, "ms to cancel": stopped}))
        return
    for form, groups in exact.items():
        print(form, groups)
    print("ms a request, median and p95, by rows:", took)
    print(f"ms from cancel to end, median: {stopped:.1f}")


if __name__ == "__main__":
    main()
