"""Expected speeds on a processor: the work of a pass times what its products were measured to take. Pure arithmetic.

A pass is the sum of its parts, and of what its calls take longer one after another than alone. A product takes at least
as long as its weights take to be read from memory. What serves it follows from the measurement, as in
``engine.kernels.cpu``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from engine.kernels import cpu, cpu_int4, cpu_int8
from engine.kernels.measurement import ALWAYS, Measurement, between
from engine.layers.kv_cache import PIECE
from engine.memory.pass_work import BYTES, ExpertLayers, MatrixProduct, PassWork
from engine.memory.plan import Plan
from engine.memory.reference_pass import FEW_HIDDEN, FEW_KEYS, FEW_KINDS, HIDDEN, TEXT, Family, kind_of, reference_work

CONTEXT = 1024  # tokens before a step, where none are asked for
TABLE_TOKENS = 8192  # of the vocabulary whose stage was measured
SERVING = {
    "fp32": (("fp32", ALWAYS),),
    "bf16": (("bf16", ALWAYS),),
    "int8": (("int8 torch", cpu_int8.FEW), ("int8 decoded", ALWAYS)),
    "int8 in fp32": (("int8 decoded", ALWAYS),),
    "int8 groups": (("int8 decoded", ALWAYS),),
    "int4": (("int4 torch", cpu_int4.FEW), ("int4 decoded", ALWAYS)),
    "table": (("nf4 decoded", ALWAYS),),
}
"""The products that serve weights, by their numbers: each up to the rows from which the next one is measured to be
faster, or those given here where one of the two was not measured. What is not measured at all serves nothing."""


@dataclass(frozen=True)
class ExpectedSpeed:
    """The speed of a model behind ``context`` tokens of text."""

    context: int
    threads: int
    rows: int  # of a step
    step_seconds: float | None  # None: it writes word by word
    tokens_per_second: float | None  # one by one; None: it only reads whole texts
    prefill_tokens_per_second: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def speed_of(plan: Plan, made: Measurement | None, context: int | None = None) -> ExpectedSpeed | None:
    """Returns the expected speed of a planned model; None without a measurement, on a card, or if it does not fit.

    context: tokens before a step; None takes ``CONTEXT``, or what the plan has.
    """
    if plan.work is None or made is None or not plan.fits:
        return None
    return expected(plan.work, made, plan.threads, min(CONTEXT, plan.context) if context is None else context)


def expected(work: PassWork, made: Measurement, threads: int, context: int = CONTEXT) -> ExpectedSpeed | None:
    """Returns the expected speed; None if a product that the model needs was not measured.

    Args:
        threads: of a pass; the nearest number that was measured counts.
    """
    taken, every = (_Taken(work, made, made.threads(count)) for count in (threads, made.setting.threads))
    try:
        step = taken.step(context) if work.in_steps or work.denoises else None
        if work.reads_whole:
            return ExpectedSpeed(context, threads, work.canvas, step, None, None)
        if every.has_few:
            token = every.few(context) + _Taken(work, made, made.threads(1)).drawing(1)
        else:
            token = taken.rows(1, context) + taken.head(1) + taken.drawing(1)
        piece = min(PIECE, max(1, context))
        prefill = piece / taken.rows(piece, context // 2)
        return ExpectedSpeed(context, threads, work.canvas, step, 1 / token, prefill)
    except KeyError:
        return None


@dataclass(frozen=True)
class _Taken:
    """The seconds of the parts of a pass."""

    work: PassWork
    made: Measurement
    threads: int
    is_reference: bool = False  # a network that was measured as a whole

    def step(self, context: int) -> float:
        """Returns the seconds of a step: of a denoising one with all that it feeds back, else of a pass and a draw."""
        work, canvas = self.work, self.work.canvas
        if not work.denoises:
            read = canvas + context if work.reads_whole else canvas
            return self.rows(read, 0 if work.reads_whole else context) + self.head(canvas) + self.drawing(canvas)
        pass_seconds = self.rows(canvas, context) + self._products(work.fed_back, canvas)
        if work.is_program and work.head.numbers == "int8":
            table = self._timed("vocabulary int8", work.hidden * TABLE_TOKENS, canvas)
            return pass_seconds + table * work.vocabulary / TABLE_TOKENS
        return pass_seconds + 2 * self.head(canvas) + self._timed("sampler", work.vocabulary, canvas)

    def rows(self, rows: int, context: int) -> float:
        """Returns the seconds of so many rows through all layers."""
        work = self.work
        number = "bf16" if work.is_bf16 else "fp32"
        rest = f"rest {self.family} {number}"
        seconds = work.depth * self._timed(rest, work.hidden, rows) + self._products(work.products, rows)
        seconds += work.depth * self._between_calls(rows)
        for layers in work.attention:
            keys = rows + (context if layers.window is None else min(context, layers.window - 1))
            seconds += layers.count * self._timed(f"attention {number}", keys * layers.width, rows)
        seconds += sum(self._experts(layers, rows) for layers in work.experts)
        return seconds

    @property
    def has_few(self) -> bool:
        """True if a row goes through all layers in C, and what they take was measured."""
        return self.work.in_c and all(self.made.has(f"few {kind}", self.threads) for kind in (*FEW_KINDS, "attention"))

    def few(self, context: int) -> float:
        """Returns the seconds of a row through all layers and the head in C, behind a text; it takes all threads.

        In proportion to the weights, as the layers of a reference network; unpacked ones take as long as being read.
        """
        products = [*self.work.products, self.work.head]
        layer = sum(one.count * one.weights for one in self.work.products) / self.work.depth
        seconds = 0.0
        for one in products:
            kind = "int4" if one.numbers == "int4" else "int8" if one.numbers.startswith("int8") else ""
            if kind:
                each = self.made.seconds(f"few {kind}", self.threads, layer, 1) / layer
            else:
                each = self.made.per_weight("read", self.threads) * BYTES[one.numbers] / BYTES["fp32"]
            seconds += one.count * one.weights * each
        near, far = (self._timed("few attention", keys * FEW_HIDDEN[0], 1) for keys in FEW_KEYS)
        each = (far - near) / ((FEW_KEYS[1] - FEW_KEYS[0]) * FEW_HIDDEN[0])
        for layers in self.work.attention:
            keys = min(context, layers.window - 1 if layers.window else context) - TEXT  # beyond the reference's text
            seconds += layers.count * max(0, keys) * layers.width * each
        return seconds

    @property
    def family(self) -> Family:
        return "diffusion" if self.work.denoises else "causal"

    def _between_calls(self, rows: int) -> float:
        """Returns the seconds of a layer that its calls take longer one after another than each by itself.

        Measured on small layers; in larger ones it is the same, and next to nothing.
        """
        if self.is_reference:
            return 0.0
        kind, line = kind_of(self.work), list[tuple[float, float]]()
        for hidden in HIDDEN:
            own = reference_work(self.family, kind, hidden, self.made.has("int4 torch", self.threads))
            parts = _Taken(own, self.made, self.threads, is_reference=True)
            whole = self._timed(f"layer {self.family} {kind}", hidden, rows)
            longer = whole - parts.rows(rows, TEXT) / own.depth
            line.append((hidden, max(0.0, longer, line[-1][1] if line else 0.0)))
        return between(line, min(self.work.hidden, HIDDEN[-1]))

    def head(self, rows: int) -> float:
        return self._products((self.work.head,), rows)

    def drawing(self, rows: int) -> float:
        return self._timed("drawing", self.work.vocabulary, rows)

    def _products(self, products: Iterable[MatrixProduct], rows: int) -> float:
        return sum(one.count * self._product(one.numbers, one.weights, rows, self.threads) for one in products)

    def _product(self, numbers: str, weights: int, rows: float, threads: int) -> float:
        name = self._serving(numbers, rows, threads)
        reading = self.made.per_weight("read", threads) * weights * BYTES[numbers] / BYTES["fp32"]
        return max(reading, self.made.seconds(name, threads, weights, rows))

    def _serving(self, numbers: str, rows: float, threads: int) -> str:
        """Returns the name of the product that serves so many rows."""
        line = SERVING[numbers]
        for (name, usual), (other, _) in pairwise(line):
            limit = self.made.most_rows(name, other, threads)
            if self.made.has(name, threads) and rows <= (usual if limit is None else limit):
                return name
        return line[-1][0]

    def _experts(self, layers: ExpertLayers, rows: int) -> float:
        """Returns the seconds of layers of experts: each in one thread, several at once if there is enough to do."""
        pairs, used = rows * layers.chosen, _used(layers, rows)
        weights = 3 * layers.hidden * layers.inner
        if layers.numbers == "int4":
            reading = self.made.per_weight("read", 1) * weights * BYTES["int4"] / BYTES["fp32"]
            each = max(reading, self.made.seconds("experts int4", 1, weights, pairs / used))
        else:
            each = self._product(layers.numbers, weights, pairs / used, 1)
        at_once = self.threads if pairs >= cpu.LEAST_PAIRS else 1
        return layers.count * used * each / at_once

    def _timed(self, name: str, size: float, rows: int) -> float:
        return self.made.seconds(name, self.threads, size, rows)


def _used(layers: ExpertLayers, rows: int) -> float:
    """Returns how many experts some row chose, if each chooses at random."""
    return layers.experts * (1 - (1 - layers.chosen / layers.experts) ** rows)
