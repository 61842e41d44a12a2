"""Writes a safetensors file whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from engine.files import replacing


def save_whole(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors that are on the CPU and contiguous.

    Raises:
        SafelightError: the disk is full, or the folder cannot be written to.
    """
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:  # only its text has the system's error
            is_full = "No space left" in str(error) or "os error 28" in str(error)
            raise OSError(errno.ENOSPC if is_full else errno.EIO, str(error)) from error
        temporary.chmod(0o644)  # the library writes for the owner only
