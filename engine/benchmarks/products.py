"""Measures what products, attention and all else of a pass take on this processor: ``CANDIDATES``. Prints nothing.

To add a product, add its row; ``engine.memory.speed`` says which one serves a weight. Each time is the least of a few
calls, for one thread and for all: what disturbs a call only adds to it. Of whole layers it is the median, as a model's
passes are not the best ones.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

import torch

from engine.benchmarks import product_calls as calls
from engine.errors import SafelightError
from engine.kernels import cpu_int4, cpu_int8, cpu_w4a8, measured
from engine.kernels.measurement import ALWAYS, Measurement, Timed
from engine.memory import reference_pass
from engine.memory.reference_pass import FAMILIES, KINDS, LAYERS
from engine.quant import INT4, INT8, NF4
from engine.threads import available_threads
from engine.types import Cancel

Sizes = tuple[tuple[int, int], ...]  # inputs and outputs of matrices, the smallest first
Clock = Callable[[], float]
Report = Callable[[float, str], object]
"""Called with the share that is done, 0 to 1, and the name of what comes next."""

ROWS = (1, 4, 16, 64, 256)
SQUARES: Sizes = ((128, 128), (576, 576), (2048, 2048), (2816, 2816))
LONGEST = 180.0  # seconds; with busy programs around, a measurement takes ten times as long and is not kept
MOST_STRETCH = 1.5  # of work in all threads at once, from which other programs hold a core
MOST_DISTURBED = 0.34  # share of the looks at the cores; above it a measurement is not kept
ENOUGH = 0.012  # seconds of calls from which no more are made
FEWEST, MOST = 3, 20  # calls that are timed, after one that warms up


@dataclass(frozen=True)
class ProductCandidate:
    """A row of the measurement."""

    name: str
    what: str  # in words
    make: calls.Make
    sizes: Sizes = SQUARES
    rows: tuple[int, ...] = ROWS
    count: int = 1  # matrices, or layers, that a call goes through: the time is of one
    on_one: bool = False  # it takes one thread in any case
    is_typical: bool = False  # the median of its calls counts, else the least
    serves: Callable[[], bool] = lambda: True


def _has_int4() -> bool:
    return cpu_int4.block() > 0


def _has_ours() -> bool:
    return cpu_int4.block() > 0 and cpu_w4a8.block() == cpu_int4.block()


FP32, BF16 = torch.float32, torch.bfloat16
KEYS: Sizes = ((256, 512), (1024, 512))  # keys, and numbers of all heads
TABLES: Sizes = ((576, 8192), (2816, 8192))
LOGITS: Sizes = ((1, 128), (1, 8192))
HIDDEN: Sizes = ((128, 1), (2816, 1))
STACKS: Sizes = ((576, 3 * 192), (2816, 3 * 704))
CANDIDATES = (
    ProductCandidate("fp32", "fp32", calls.unpacked(FP32)),
    ProductCandidate("bf16", "bf16", calls.unpacked(BF16)),
    ProductCandidate(
        "int8 torch", "8 bits, torch's kernel", calls.packed(INT8, {"int8 torch": ALWAYS}), serves=cpu_int8.is_fast
    ),
    ProductCandidate("int8 decoded", "8 bits, decoded", calls.packed(INT8, {"int8 torch": 0})),
    ProductCandidate(
        "int4 torch", "4 bits, torch's kernel", calls.packed(INT4, {"int4 torch": ALWAYS}), serves=_has_int4
    ),
    ProductCandidate(
        "int4 decoded", "4 bits, decoded", calls.packed(INT4, {"int4 torch": 0}), serves=_has_int4
    ),
    ProductCandidate("int4 ours", "4 bits, ours in C", calls.by_our_int4(INT4), on_one=True, serves=_has_ours),
    ProductCandidate("nf4 decoded", "4 bits by a table, decoded", calls.packed(NF4)),
    ProductCandidate(
        "experts int4", "experts in 4 bits, each", calls.experts(INT4), STACKS, (1, 4, 16, 64), calls.STACK, True
    ),
    ProductCandidate("attention fp32", "attention, fp32", calls.attention(FP32), KEYS, (1, 16, 64, 256)),
    ProductCandidate("attention bf16", "attention, bf16", calls.attention(BF16), KEYS, (1, 16, 64, 256)),
    ProductCandidate("vocabulary int8", "8 192 tokens of a step's vocabulary", calls.vocabulary, TABLES, (16, 64, 256)),
    ProductCandidate("sampler", "a plain step's sampler", calls.sampler, LOGITS, (16, 64, 256)),
    ProductCandidate("drawing", "drawing a token", calls.drawing, LOGITS, (1, 16)),
    *(
        ProductCandidate(
            f"rest {family} {number}", f"all else of a layer, {family}, {number}", calls.rest_of(family, dtype), HIDDEN,
            (1, 16, 256), calls.FEW_LAYERS,
        )
        for family in FAMILIES
        for number, dtype in (("fp32", FP32), ("bf16", BF16))
    ),
    *(
        ProductCandidate(
            f"layer {family} {kind}", f"a whole small layer, {family}, {kind}", calls.layers_of(family, kind),
            tuple((hidden, 1) for hidden in reference_pass.HIDDEN), (1, 64, 256), LAYERS, is_typical=True,
        )
        for family in FAMILIES
        for kind in KINDS
    ),
    *(
        ProductCandidate(
            f"few {kind}", f"a row through all layers, {kind}", calls.few_rows(kind),
            tuple((hidden, reference_pass.layer_weights(hidden) // hidden) for hidden in reference_pass.FEW_HIDDEN),
            (1, 8), calls.FEW_LAYERS, is_typical=True, serves=_has_ours,
        )
        for kind in reference_pass.FEW_KINDS
    ),
    ProductCandidate(
        "few attention", "the same behind 256 and 2 048 tokens", calls.few_keys,
        tuple((keys, reference_pass.FEW_HIDDEN[0]) for keys in reference_pass.FEW_KEYS), (1,), calls.FEW_LAYERS,
        is_typical=True, serves=_has_ours,
    ),
    ProductCandidate("read", "reading weights from memory, fp32", calls.unpacked(FP32), ((4096, 16_384),), (1,)),
)  # fmt: skip


@dataclass(frozen=True)
class ProductsResult:
    """A measurement, and whether it should be kept."""

    measurement: Measurement
    disturbed: float  # share of the looks at the cores at which other programs held some of them

    @property
    def is_quiet(self) -> bool:
        return self.disturbed <= MOST_DISTURBED


def measure_products(
    report: Report = lambda _share, _what: None,
    cancel: Cancel | None = None,
    clock: Clock = time.perf_counter,
    candidates: Sequence[ProductCandidate] = CANDIDATES,
) -> ProductsResult | None:
    """Measures all candidates that this machine has; None if ``cancel`` was set.

    torch's number of threads is changed meanwhile, in this thread.

    Raises:
        SafelightError: it takes too long.
    """
    before, found = torch.get_num_threads(), list[Timed]()
    every = available_threads()
    looks, began = list[float](), time.monotonic()
    chosen = [candidate for candidate in candidates if candidate.serves()]
    try:
        for index, candidate in enumerate(chosen):
            if time.monotonic() - began > LONGEST:
                raise SafelightError(
                    "measuring takes too long: other programs are busy. Measure while nothing else runs"
                )
            report(index / len(chosen), candidate.what)
            looks.append(stretch(every, clock))
            for timed in _times(candidate, (1,) if candidate.on_one else tuple(dict.fromkeys((1, every))), clock):
                if cancel is not None and cancel.is_set():
                    return None
                found.append(timed)
    finally:
        torch.set_num_threads(before)
    made = Measurement(measured.here(), tuple(found))
    return ProductsResult(made, sum(look > MOST_STRETCH for look in looks) / max(1, len(looks)))


def stretch(threads: int, clock: Clock = time.perf_counter) -> float:
    """Returns how many times as long the same work takes in all threads at once as in one: 1 if the cores are free."""
    data = bytes(1 << 21)

    def work(_: int) -> None:
        hashlib.sha256(data).digest()  # lets other threads run meanwhile

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))  # so that the threads are there
        times = list[float]()
        for count in (1, threads):
            started = clock()
            list(pool.map(work, range(count)))
            times.append(clock() - started)
    return times[1] / times[0]


@torch.inference_mode()
def _times(candidate: ProductCandidate, threads: tuple[int, ...], clock: Clock) -> Iterator[Timed]:
    for inputs, outputs in candidate.sizes:
        of_rows = candidate.make(inputs, outputs)
        for count in threads:
            torch.set_num_threads(count)
            for rows in candidate.rows:
                seconds = _seconds(of_rows(rows), clock, median if candidate.is_typical else min) / candidate.count
                yield Timed(candidate.name, count, inputs, outputs, rows, seconds)


def _seconds(call: calls.Call, clock: Clock, of: Callable[[list[float]], float]) -> float:
    """Returns the seconds of a call, from those of a few: as many as fit into ``ENOUGH``, within bounds."""
    call()
    times = list[float]()
    while len(times) < FEWEST or (len(times) < MOST and sum(times) < ENOUGH):
        started = clock()
        call()
        times.append(clock() - started)
    return of(times)
