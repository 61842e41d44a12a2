"""Chooses the device and the number type of a model, and gives the reason."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.errors import SafelightError, Sentence
from engine.memory.experimental import NAMES, asked_for, verdict
from engine.memory.machine import AbsentCard

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Placement:
    """A device and a number type, with the reason in words.

    A ``card`` that this machine lacks has the device "meta". ``is_news``: users should read the reason, as an
    experimental device is used, or is not.
    """

    device: torch.device
    dtype: torch.dtype
    reason: str
    card: AbsentCard | None = None
    is_news: bool = False

    @property
    def is_experimental(self) -> bool:
        """True if this program was never run on the device."""
        return self.is_news and self.device.type != "cpu"


def choose(device: str | AbsentCard = "auto", dtype: str = "auto") -> Placement:
    """Resolves ``device`` ("auto", "cpu", "cuda", "cuda:N", "xpu", "mps", or a card) and ``dtype`` ("auto", "float32",
    "bfloat16").

    Raises:
        SafelightError: an unknown name, or a device that this machine does not have.
    """
    card, own = device if isinstance(device, AbsentCard) else None, asked_for(device)
    if isinstance(device, AbsentCard):
        chosen, reason = torch.device("meta"), Sentence("asked for")
    elif own is not None:
        chosen, reason = _experimental(own, is_asked_for=device != "auto")
    elif device == "auto":
        if torch.cuda.is_available():
            name = torch.cuda.get_device_name(0)
            chosen, reason = torch.device("cuda", 0), Sentence("{name} is available", name=name)
        else:
            chosen = torch.device("cpu")
            reason = (
                Sentence("no CUDA device is available") if _has_cuda() else Sentence("torch is installed without CUDA")
            )
    else:
        try:
            chosen, reason = torch.device(device), Sentence("asked for")
        except RuntimeError:
            raise SafelightError(f"unknown device {device!r}; use auto, cpu, cuda or cuda:N") from None
        if chosen.type in ("xpu", "mps") or (chosen.type == "cuda" and torch.version.hip is not None):
            raise SafelightError(f"device {device!r} was asked for, but torch has none here; use cpu or auto")
        if chosen.type not in ("cpu", "cuda"):
            raise SafelightError(f"device {device!r} is not supported; use auto, cpu, cuda, cuda:N, xpu or mps")
        if chosen.type == "cuda" and not torch.cuda.is_available():
            if not _has_cuda():
                get = "uv pip install --reinstall torch --torch-backend auto"
                raise SafelightError(
                    f"device {device!r} was asked for, but torch is installed without CUDA; run: {get}"
                )
            raise SafelightError(f"device {device!r} was asked for, but no CUDA device is available; use cpu or auto")
        if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
            raise SafelightError(f"device {device!r} does not exist; this machine has {torch.cuda.device_count()}")
    if dtype == "auto":
        number = torch.float32 if chosen.type == "cpu" else torch.bfloat16
    elif dtype in DTYPES:
        number = DTYPES[dtype]
    else:
        raise SafelightError(f"unknown number type {dtype!r}; use auto, float32 or bfloat16")
    return Placement(chosen, number, reason, card, is_news=own is not None)


def _experimental(own: torch.device, *, is_asked_for: bool) -> tuple[torch.device, Sentence]:
    """Returns the experimental device of this machine if it was right in a check, else the processor.

    Raises:
        SafelightError: it was wrong, and is asked for by its name. One that is unchecked is taken then, for plans.
    """
    why, name = verdict(own), NAMES[own.type]
    if why and is_asked_for:
        raise SafelightError(f"{name} is not used: {why}; use cpu or auto")
    if why:
        return torch.device("cpu"), Sentence("{name} is not used: {why}", name=name, why=why)
    if why is None and not is_asked_for:
        return torch.device("cpu"), Sentence("{name} is experimental, and is checked when a model is loaded", name=name)
    return own, Sentence("{name} is experimental: Safelight was never tried on one", name=name)


def _has_cuda() -> bool:
    """Returns True if this torch was built for CUDA; the default build on Windows is not."""
    return torch.version.cuda is not None
