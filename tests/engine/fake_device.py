"""Another kind of device than those that torch has here: a processor that torch takes for a card of its own.

Tensors there are wrappers of this processor's. As on a card, nothing is computed from tensors of both. ``twist`` is
called with the name and the result of each product, to return another one, raise, or wait.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _device, backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

KIND = "fake"
PRODUCTS = ("mm", "bmm", "addmm")
ATEN = torch.ops.aten
MIXING = (ATEN.copy_, ATEN._to_copy, ATEN.index, ATEN.index_put_, ATEN.set_)  # may have arguments from both
Twist = Callable[[Tensor], Tensor]


class _Absent(backend_registration._DummyBackendModule):
    """Says to others in this process that there is no such device."""

    def is_available(self) -> bool:
        return False


@functools.cache
def register() -> torch.device:
    """Registers the device with torch, for this process; it is used in ``present`` alone."""
    backend_registration._setup_privateuseone_for_python_backend(KIND, backend_module=_Absent())
    return torch.device(KIND, 0)


class There(Tensor):
    """A tensor on the device; ``raw`` has its numbers."""

    raw: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: Tensor) -> There:
        made: There = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype,
            device=register(),
        )  # fmt: skip
        made.raw = raw
        return made

    def tolist(self) -> Any:
        return self.raw.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(function, args, kwargs or {}, None)


class _Mode(TorchDispatchMode):
    def __init__(self, twist: Twist | None) -> None:
        super().__init__()
        self.twist = twist

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, for seconds

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_made_of_others(function):
            with self:
                return function.decompose(*args, **(kwargs or {}))
        return _computed(function, args, kwargs or {}, self.twist)


@functools.cache
def _is_made_of_others(function: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd"))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yields the tensors of values, in lists as well; torch's own functions for trees take ten times as long."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    return type(value)([_changed(each, change) for each in value]) if isinstance(value, tuple | list) else value


def _raw(tensor: Tensor) -> Tensor:
    return tensor.raw if isinstance(tensor, There) else tensor


def _computed(function: Any, args: Any, kwargs: dict[str, Any], twist: Twist | None) -> Any:
    given = [*_tensors(args), *_tensors(kwargs.values())]
    there = {id(tensor.raw): tensor for tensor in given if isinstance(tensor, There)}
    device = kwargs.get("device")
    if not there and (device is None or device.type != KIND):
        return function(*args, **kwargs)
    mixed = any(not isinstance(tensor, There) and tensor.dim() for tensor in given)
    if there and mixed and function.overloadpacket not in MIXING:
        raise RuntimeError(f"{function}: expected all tensors on one device")
    own, named = _changed(args, _raw), {name: _changed(value, _raw) for name, value in kwargs.items()}
    made = function(*own, **(named if device is None else named | {"device": torch.device("cpu")}))
    if twist is not None and function.overloadpacket._qualified_op_name.removeprefix("aten::") in PRODUCTS:
        made = twist(made)
    stays = device is None or device.type == KIND
    if stays and any(tensor.dtype == torch.float64 for tensor in _tensors([made])):
        raise TypeError("this device has no float64, as Apple's has none")
    return _changed(made, lambda tensor: there[id(tensor)] if id(tensor) in there else There(tensor)) if stays else made


class _Generator(torch.Generator):
    """A generator of the processor's that says it is on the device asked for."""

    asked_for: torch.device

    def __new__(cls, device: object = None) -> _Generator:
        made: _Generator = super().__new__(cls)
        made.asked_for = torch.device("cpu" if device is None else device)
        return made

    @property
    def device(self) -> torch.device:
        return self.asked_for


_real_tensor = torch.tensor


def _tensor(data: object, *, dtype: torch.dtype | None = None, device: torch.device | None = None) -> Tensor:
    """Makes a tensor as torch does, which on the device would go round the mode."""
    if device is None or torch.device(device).type != KIND:
        return _real_tensor(data, dtype=dtype, device=device)
    return _real_tensor(data, dtype=dtype, device="cpu").to(device)


@contextmanager
def present(monkeypatch: pytest.MonkeyPatch, twist: Twist | None = None) -> Iterator[torch.device]:
    """Puts the device into this machine, for this thread."""
    device = register()
    _device._device_constructors()  # remembers torch's own functions, before they are replaced
    with monkeypatch.context() as patch, _Mode(twist):
        patch.setattr(torch, "Generator", _Generator)
        patch.setattr(torch, "tensor", _tensor)
        patch.setattr(torch._C, "_InferenceMode", lambda _: torch.no_grad())  # it takes no such wrappers
        yield device
