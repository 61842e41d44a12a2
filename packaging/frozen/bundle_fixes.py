"""What two libraries must be told inside a bundle, at the moment they are imported. Imports neither of them itself.

- Triton compiles a small C module, its kernel launcher, with the user's C compiler. The bundle brings it compiled.
- cuDNN's engines are left out of the bundle, so that torch must not try them for attention.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

LAUNCHER = "cuda_utils"  # Triton's name for it
MARK = "cpu-only"  # a file beside the libraries of a bundle without CUDA


def here() -> Path:
    """The folder with the bundle's libraries."""
    return Path(__file__).resolve().parent


def launcher() -> Path:
    """The kernel launcher that was compiled when the bundle was built; it may not be there."""
    return here() / "triton" / "backends" / "nvidia" / f"{LAUNCHER}.so"


def bring_launcher(knobs: ModuleType) -> None:
    """Give Triton our launcher where it would call a compiler."""
    if not launcher().exists():
        return

    def build(name: str, _source: str, *_where: Any) -> str:
        if name != LAUNCHER:
            raise RuntimeError(f"the bundle has no compiled {name}, and a bundle compiles no C")
        return str(launcher())

    knobs.build.impl = build


def leave_out_cudnn(torch: ModuleType) -> None:
    """Nothing in the engine needs cuDNN; attention takes another of torch's ways."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


AFTER: dict[str, Callable[[ModuleType], None]] = {"triton.knobs": bring_launcher, "torch": leave_out_cudnn}


class _Then(importlib.abc.Loader):
    """Loads as another loader does and then calls ``action``."""

    def __init__(self, inner: Any, action: Callable[[ModuleType], None]) -> None:
        self._inner, self._action = inner, action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:  # whoever asks the module for its source finds the real loader
            module.__spec__.loader = module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._action(module)


class AfterImport(importlib.abc.MetaPathFinder):
    """Finds the modules of ``AFTER`` as Python does, and sees to it that their action follows."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = AFTER.get(name)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, action)
        return spec


def install() -> None:
    """Before anything imports torch."""
    if (here() / MARK).exists():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a card could not be used, and must not be tried
    sys.meta_path.insert(0, AfterImport())
