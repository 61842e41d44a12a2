"""Types that all rooms of the engine share. Needs no torch at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Tokens: TypeAlias = NDArray[np.int32]
"""Token ids on the CPU."""

Row: TypeAlias = "Sequence[int] | Tokens | Tensor"
"""Token ids as callers give them."""

Progress: TypeAlias = Callable[[float], None]
"""Called with the share that is done, 0 to 1."""


class Cancel(Protocol):
    """A flag that is checked between steps; ``threading.Event`` is one."""

    def is_set(self) -> bool: ...


class LinkedFlag:
    """A flag that is set with another one, or by itself."""

    def __init__(self, other: Cancel | None) -> None:
        self._other, self.is_own = other, False

    @property
    def is_others(self) -> bool:
        return self._other is not None and self._other.is_set()

    def is_set(self) -> bool:
        return self.is_own or self.is_others
