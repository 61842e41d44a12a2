"""Counts the launches of some work on a card: Triton kernels, and torch operations that would be kernels there.

A torch operation counts once, even if a library launches several kernels for it (a sort, a split product). Views, empty
allocations and operations on nothing count as none. Copies between host and device count.

On the meta device nothing is computed: kernels are counted instead of launched. So a real shape is counted in seconds,
without a card and without its memory. A meta device counts as a card with ``linear_w8a16.PROCESSORS`` multiprocessors.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "lift_fresh"}


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, found: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = found
        self.inside_kernel = False  # an interpreted kernel copies its arguments with torch

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False: torch would import its compiler, for a second, only to keep it off this class."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.inside_kernel:
            with self:
                parts = func.decompose(*args, **(kwargs or {}))  # in inference mode, "linear" is not decomposed
            if parts is not NotImplemented:
                return parts
        result = func(*args, **(kwargs or {}))
        if not self.inside_kernel and _launches(func, result):
            self.found[func.overloadpacket.__name__] += 1
        return result


def _launches(func: Any, result: Any) -> bool:
    if func.is_view or func.overloadpacket.__name__ in ALLOCATIONS:
        return False
    return any(isinstance(leaf, Tensor) and leaf.numel() > 0 for leaf in tree_leaves(result))


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Yields the launches of the calling thread by name, counted within the context; their sum is ``found.total()``."""
    from triton.runtime.jit import KernelInterface  # may be missing; this module must import without it

    found: Counter[str] = Counter()
    operations = _Operations(found)
    plain = KernelInterface.__getitem__
    thread = threading.get_ident()

    def counted(kernel: Any, grid: Any) -> Any:
        launch = plain(kernel, grid)
        if threading.get_ident() != thread:
            return launch

        def run(*args: Any, **kwargs: Any) -> Any:
            found[kernel.__name__] += 1
            if any(isinstance(arg, Tensor) and arg.is_meta for arg in args):
                return None
            operations.inside_kernel = True
            try:
                return launch(*args, **kwargs)
            finally:
                operations.inside_kernel = False

        return run

    KernelInterface.__getitem__ = counted  # type: ignore[method-assign]
    try:
        with operations:
            yield found
    finally:
        KernelInterface.__getitem__ = plain  # type: ignore[method-assign]
