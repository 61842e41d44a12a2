"""Times of products on this processor, measured once and kept; the limits by which kernels are chosen.

``engine.benchmarks.products`` measures, and only when it is asked to. A measurement holds for the processor, torch, the
threads and the kernels that it was made with; another one, or a damaged file, counts as none. The limits are read once
a process, so that a run does not change while it goes on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path

import torch

from engine import windows
from engine.errors import SafelightError
from engine.files import is_plain_file, private_folder, read_json, write_text
from engine.kernels import native
from engine.kernels.measurement import MOST_TEXT, MeasuredSetting, Measurement, Timed
from engine.threads import available_threads

FLAGS = ("avx2", "avx_vnni", "avx512_f", "avx512_bf16", "avx512_vnni", "amx_int8", "amx_bf16")
FORMAT = 1  # of the file; one of another format is measured again
MOST_BYTES = 2**18  # of the file, which takes 60 kB
MOST_TIMES = 2_000
_forced: ContextVar[Mapping[str, int] | None] = ContextVar("limits that are set for a measurement", default=None)


def most_rows(name: str, other: str, otherwise: int) -> int:
    """Returns the rows up to which one product is taken in place of another, with the threads of this one's passes.

    Without a measurement it is ``otherwise``.
    """
    limits = _forced.get()
    if limits is not None:
        return limits.get(name, otherwise)
    found = _most_rows(name, other, torch.get_num_threads())
    return otherwise if found is None else found


def is_faster(name: str, other: str, otherwise: bool) -> bool:
    """Returns True if one product of many rows is taken in place of another; without a measurement ``otherwise``."""
    limits = _forced.get()
    if limits is not None:
        return bool(limits.get(name, otherwise))
    found = _is_faster(name, other)
    return otherwise if found is None else found


@functools.cache
def _most_rows(name: str, other: str, threads: int) -> int | None:
    made = _at_start()
    return None if made is None else made.most_rows(name, other, made.threads(threads))


@functools.cache
def _is_faster(name: str, other: str) -> bool | None:
    made = _at_start()
    return None if made is None else made.is_faster(name, other, made.threads(available_threads()))


@functools.cache
def _at_start() -> Measurement | None:
    return kept()


def forget() -> None:
    """Reads the limits again, as a new process would."""
    for function in (_most_rows, _is_faster, _at_start):
        function.cache_clear()


@contextmanager
def forced(limits: Mapping[str, int]) -> Iterator[None]:
    """Sets limits by the names of products for this thread, so that each product can be measured; 0 rules it out."""
    token = _forced.set(limits)
    try:
        yield
    finally:
        _forced.reset(token)


def here() -> MeasuredSetting:
    """Returns the setting of this process."""
    return MeasuredSetting(processor(), units(), torch.__version__, available_threads(), _kernels())


def processor() -> str:
    """Returns the processor's name, as far as the system gives it."""
    return str(_capabilities().get("cpu_name") or platform.processor() or platform.machine())[:MOST_TEXT]


def units() -> str:
    """Returns the instruction set that torch uses, and those that matter for products."""
    found = _capabilities()
    return " ".join((torch.backends.cpu.get_cpu_capability(), *(flag for flag in FLAGS if found.get(flag))))


def _capabilities() -> Mapping[str, object]:
    return torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}


@functools.cache
def _kernels() -> str:
    """Returns a hash of our kernels in C."""
    sources = (*native.HEADERS, *native.SOURCES)
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def place() -> Path:
    """Returns the file of the measurement, in the user's cache.

    Raises:
        RuntimeError: there is no home.
    """
    cache = os.environ.get("LOCALAPPDATA" if windows.IS_WINDOWS else "XDG_CACHE_HOME")
    return Path(cache or Path.home() / ".cache") / "safelight" / "products.json"


def keep(made: Measurement) -> Path:
    """Writes a measurement in place of the one before; kernels are chosen by it from the next start on.

    Raises:
        SafelightError: it cannot be written.
    """
    try:
        file = place()
        private_folder(file.parent)
    except (OSError, RuntimeError) as error:
        raise SafelightError(f"the measurement cannot be kept ({error}); allow writing to the cache folder") from None
    write_text(file, json.dumps({"format": FORMAT} | made.as_dict()), private=True)
    return file


def kept() -> Measurement | None:
    """Returns the measurement of this machine; None if there is none, or the file is damaged or another machine's."""
    try:
        file = place()
        if not is_plain_file(file):
            return None
        raw, setting = read_json(file, most=MOST_BYTES), here()
        times = raw.get("times")
        is_ours = raw.get("format") == FORMAT and raw.get("setting") == asdict(setting)
        if not is_ours or not isinstance(times, list) or not 0 < len(times) <= MOST_TIMES:
            return None
        return Measurement(setting, tuple(Timed(**time) for time in times))
    except (SafelightError, OSError, RuntimeError, TypeError):  # TypeError: a time that is none, or has other fields
        return None
