"""What two programs took for the same work, read from the JSON that each prints; and a table of it.

The standard library alone. Rates are tokens per second. A ratio is how many times as fast Safelight is: the median over
the turns, so that a machine that becomes slower from one turn to the next affects both programs alike.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MAX_CHARACTERS = 1_000_000  # of one program's output


class PeerError(Exception):
    """A program failed, or printed something else than is read here; says it in a line."""


@dataclass(frozen=True)
class Measured:
    """One program's figures of one turn; None for what was not asked."""

    bits: str  # of its weights, in its own words
    prefill: float | None = None  # tokens/s
    decode: float | None = None  # tokens/s
    step: float | None = None  # seconds of a pass over all rows, with all logits


@dataclass(frozen=True)
class Turns:
    """The same work by both programs, in turn."""

    model: str
    threads: int
    ours: list[Measured] = field(default_factory=list)
    theirs: list[Measured] = field(default_factory=list)

    def ratio(self, figure: str) -> float | None:
        """Returns how many times as fast ours is; None if a figure is lacking."""
        pairs = [(getattr(a, figure), getattr(b, figure)) for a, b in zip(self.ours, self.theirs, strict=True)]
        if not pairs or any(value is None for pair in pairs for value in pair):
            return None
        return float(statistics.median(b / a if figure == "step" else a / b for a, b in pairs))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": {figure: self.ratio(figure) for figure in ("prefill", "decode", "step")}}


def read_json(printed: str, program: str) -> Any:
    """Returns what a program printed as JSON.

    Raises:
        PeerError: it is none.
    """
    if len(printed) > MAX_CHARACTERS:
        raise PeerError(f"{program} printed {len(printed)} characters where JSON was expected")
    try:
        return json.loads(printed)
    except ValueError:
        raise PeerError(f"{program} printed no JSON: {printed.strip()[:200]!r}") from None


def safelight_writing(printed: str) -> Measured:
    """Reads ``safelight bench --prompt-tokens … --json``."""
    record = _record(read_json(printed, "safelight"), "safelight")
    prefill, decode = (_number(record, f"{part}_tokens_per_second", "safelight") for part in ("prefill", "decode"))
    return Measured(_packed(record), prefill=prefill, decode=decode)


def safelight_step(printed: str) -> Measured:
    """Reads ``safelight bench --shape … --json``."""
    record = _record(read_json(printed, "safelight"), "safelight")
    read = _number(record, "context", "safelight") / _number(record, "prefill_ms", "safelight") * 1e3
    return Measured(_packed(record), prefill=read, step=_number(record, "step_ms_median", "safelight") / 1e3)


def _packed(record: Mapping[str, Any]) -> str:
    precision = record.get("precision")
    if not isinstance(precision, dict):
        raise PeerError("safelight printed no precision")
    packed = dict.fromkeys(str(scheme) for scheme in precision.values() if scheme)
    return ", ".join([*packed, *([str(record["dtype"])] if "dtype" in record else [])])


@dataclass(frozen=True)
class LlamaTest:
    """One test of ``llama-bench -o json`` and what it says of itself."""

    model: str  # with the type of its weights
    build: str
    processor: str
    rate: float  # tokens/s

    @property
    def bits(self) -> str:
        """The type of the weights: what follows the number of parameters (``llama 256M Q4_1``)."""
        return " ".join(self.model.split()[2:]) or self.model


def llama_test(printed: str, *, prompt: int, new: int, depth: int, threads: int) -> LlamaTest:
    """Reads the one test that was asked of ``llama-bench``.

    Raises:
        PeerError: it was another one, so that the figures could not be compared.
    """
    found = read_json(printed, "llama-bench")
    if not isinstance(found, list) or len(found) != 1:
        raise PeerError("llama-bench printed another number of tests than one")
    record = _record(found[0], "llama-bench")
    asked = {"n_prompt": prompt, "n_gen": new, "n_depth": depth, "n_threads": threads}
    for key, value in asked.items():
        if record.get(key) != value:
            raise PeerError(f"llama-bench measured {key} {record.get(key)!r}, not {value}; take a newer one")
    rate = _number(record, "avg_ts", "llama-bench")
    build = f"{record.get('build_commit')} ({record.get('build_number')}), {record.get('backends')}"
    return LlamaTest(str(record.get("model_type")), build, str(record.get("cpu_info")), rate)


def _record(found: Any, program: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise PeerError(f"{program} printed another kind of JSON than an object")
    return found


def _number(record: Mapping[str, Any], key: str, program: str) -> float:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise PeerError(f"{program} printed {key} {value!r}, which is no measurement")
    return float(value)


def table(rows: Sequence[Turns]) -> str:
    """Returns the rows as Markdown: medians of both, and the ratios."""
    columns = ["model", "bits: Safelight / llama.cpp", "threads"]
    figures = [
        figure
        for figure in ("prefill", "decode", "step")
        if any(getattr(one, figure) is not None for row in rows for one in row.ours)
    ]
    titles = {"prefill": "prefill tok/s", "decode": "decode tok/s", "step": "s a pass, all logits"}
    columns += [title for figure in figures for title in (titles[figure], "ratio")]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row.model, f"{_bits(row.ours)} / {_bits(row.theirs)}", str(row.threads)]
        for figure in figures:
            cells += [f"{_median(row.ours, figure)} / {_median(row.theirs, figure)}", _ratio(row.ratio(figure))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _bits(turns: Sequence[Measured]) -> str:
    return ", ".join(dict.fromkeys(one.bits for one in turns))


def _median(turns: Sequence[Measured], figure: str) -> str:
    values = [value for one in turns if (value := getattr(one, figure)) is not None]
    if not values:
        return "-"
    show: Callable[[float], str] = "{:.2f}".format if figure == "step" else "{:.1f}".format
    return show(statistics.median(values))


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"**{value:.2f}**"
