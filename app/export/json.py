"""Writes a run as JSON, without loss of recorded data. Knows no Qt.

The file, version 1, is one object with these parts, in this order:

* ``format`` "safelight-run" and ``version`` 1;
* ``header``: the model, all fields of ``GenerationConfig`` as ``config``, the seed, the time of creation and the run
  that it was forked from. ``prompt``, ``messages`` and ``prompt_ids`` are empty if the prompt is not exported. The
  model's folder is never in it;
* ``events``, one a line, each with its ``kind`` (the class in ``engine.events``) and all of that event's fields. Arrays
  are lists by position, two-dimensional ones lists of lists; masks are 0 and 1. The answers of a decision are lists by
  question, of its options' log-probabilities. Entropies are in nats, times in seconds. Numbers are the shortest that
  read back as the same 32-bit value; numbers that are not finite are strings;
* ``text`` and ``thinking``, the final answer, and ``failure``, the error that ended the run early;
* ``pieces``, the text of every token in ``events``, by its number, and ``special``, the control tokens.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from app.export.run import Options, Share, header_of
from engine import Event, Recording
from engine.declared import plain
from engine.files import replacing

FORMAT = "safelight-run"
VERSION = 1


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes a run; yields the share done. Without the prompt, everything that was asked is left out.

    Raises:
        SafelightError: the file cannot be written.
    """
    with replacing(path) as unfinished, unfinished.open("w", encoding="ascii", newline="\n") as file:
        head: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "header": plain(header_of(run, prompt=options.prompt)),
        }
        file.write("{\n")
        _write_parts(file, head)
        tokens: set[int] = set()
        yield from _write_events(file, run, tokens)
        reply, ordered = run.reply(), sorted(tokens)
        tail: dict[str, Any] = {
            "text": reply.text,
            "thinking": reply.thinking,
            "failure": run.failure,
        }
        tail |= {"pieces": {str(token): run.piece(token) for token in ordered}}
        _write_parts(file, tail)
        file.write(f'"special": {json.dumps([token for token in ordered if run.is_special(token)])}\n}}\n')
    yield 1.0
    return ""


def _write_parts(file: TextIO, parts: dict[str, Any]) -> None:
    for name, value in parts.items():
        file.write(f"{json.dumps(name)}: {json.dumps(value)},\n")


def _write_events(file: TextIO, run: Recording, tokens: set[int]) -> Iterator[float]:
    file.write('"events": [')
    total = len(run.events)
    for place, event in enumerate(run.events):
        file.write(",\n" if place else "\n")
        file.write(json.dumps(_event(event, tokens), allow_nan=False, separators=(",", ":")))
        yield (place + 1) / (total + 1)
    file.write("\n],\n")


def _event(event: Event, tokens: set[int]) -> dict[str, Any]:
    record: dict[str, Any] = {"kind": type(event).__name__}
    for each in dataclasses.fields(event):
        value = getattr(event, each.name)
        if isinstance(value, np.ndarray) and value.dtype == np.bool_:
            record[each.name] = value.astype(int).tolist()
        elif isinstance(value, np.ndarray) and value.dtype == np.float32:
            record[each.name] = _shortest(value)
        elif isinstance(value, np.ndarray):
            record[each.name] = value.tolist()
            tokens.update(np.unique(value).tolist())
        elif isinstance(value, tuple):
            record[each.name] = [_shortest(one) if isinstance(one, np.ndarray) else int(one) for one in value]
        else:
            record[each.name] = _finite(value) if isinstance(value, float) else value
    return record


def _shortest(values: NDArray[np.float32]) -> list[Any]:
    if values.ndim > 1:
        return [_shortest(row) for row in values]
    return [_finite(float(text)) for text in values.astype(str).tolist()]


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
