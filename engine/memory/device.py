"""Chooses the device and the number type of a model, and gives the reason."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.errors import SafelightError, Sentence
from engine.memory.card import AbsentCard

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Placement:
    """A device and a number type, with the reason in words.

    A ``card`` that this machine lacks has the device "meta".
    """

    device: torch.device
    dtype: torch.dtype
    reason: str
    card: AbsentCard | None = None


def choose(device: str | AbsentCard = "auto", dtype: str = "auto") -> Placement:
    """Resolves ``device`` ("auto", "cpu", "cuda", "cuda:N", or a card) and ``dtype`` ("auto", "float32", "bfloat16").

    Raises:
        SafelightError: an unknown name, or a device that this machine does not have.
    """
    card = device if isinstance(device, AbsentCard) else None
    if isinstance(device, AbsentCard):
        chosen, reason = torch.device("meta"), Sentence("asked for")
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
        if chosen.type not in ("cpu", "cuda"):
            raise SafelightError(f"device {device!r} is not supported; use auto, cpu, cuda or cuda:N")
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
    return Placement(chosen, number, reason, card)


def _has_cuda() -> bool:
    """Returns True if this torch was built for CUDA; the default build on Windows is not."""
    return torch.version.cuda is not None
