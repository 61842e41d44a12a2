"""Triton's interpreter without what it does again and again: four fifths of an interpreted kernel's time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.testing import _comparison
from triton import language
from triton.runtime import interpreter


def hasten() -> None:
    """Change the interpreter for good, in a process that compiles nothing; results stay what they are, bit by bit."""
    interpreter._patch_lang = _once_a_module(interpreter._patch_lang)
    interpreter._patch_attr = _patch_to_one_call
    _make_each_block_type_once()
    _join_what_has_one_type_at_once()
    _comparison._HAS_DTENSOR = False  # to look for one imports a whole library


def _once_a_module(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Triton patches its language, as a kernel's module sees it, anew at each call of a device function."""
    nothing, patched = interpreter._LangPatchScope(), set[int]()

    def patch_once(fn: Any) -> Any:
        if id(fn.__globals__) not in patched:
            patched.add(id(fn.__globals__))
            patch(fn)
        return nothing

    return patch_once


def _patch_to_one_call(of: Any, name: str, member: Any, _builder: Any, scope: Any) -> None:
    """Passes the semantics to a function of the language itself, without what makes sure that somebody passes them."""
    while language.core.is_builtin(member) and hasattr(member, "__wrapped__"):
        member = member.__wrapped__
    semantic = interpreter.interpreter_semantic

    def patched(*args: Any, **named: Any) -> Any:
        named["_semantic"] = semantic
        return member(*args, **named)

    scope.set_attr(of, name, patched)


def _join_what_has_one_type_at_once() -> None:
    """Skips the cast of operands of the same numbers, and the broadcast of those of the same type."""
    kind, tensor = type(interpreter.interpreter_semantic), language.core.tensor
    check, cast, broadcast = kind.binary_op_type_checking_impl, kind.cast, kind.broadcast_impl_value
    unwrap, unwrapped = language.core._unwrap_if_constexpr, {tensor, bool, int, float, type(None)}
    numbers = {"fp32", "int32"}  # which stay so in any operation

    def new_check(self: Any, lhs: Any, rhs: Any, *kinds: bool, **named: Any) -> Any:
        if type(lhs) is tensor and type(rhs) is tensor and lhs.dtype is rhs.dtype and lhs.dtype.name in numbers:
            return new_broadcast(self, lhs, rhs)
        return check(self, lhs, rhs, *kinds, **named)

    def new_cast(self: Any, input: Any, dst_ty: Any, *rounding: Any) -> Any:
        return input if input.dtype is dst_ty else cast(self, input, dst_ty, *rounding)

    def new_broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
        return (lhs, rhs) if lhs.type is rhs.type else broadcast(self, lhs, rhs)

    kind.binary_op_type_checking_impl, kind.cast, kind.broadcast_impl_value = new_check, new_cast, new_broadcast
    language.core._unwrap_if_constexpr = lambda one: one if type(one) in unwrapped else unwrap(one)


def _make_each_block_type_once() -> None:
    """Types of blocks, and what tensors derive of theirs."""
    block, tensor = language.core.block_type, language.core.tensor
    make_type, make_tensor = block.__init__, tensor.__init__
    types: dict[tuple[Any, ...], Any] = {}
    derived: dict[str, tuple[Any, Any, Any]] = {}

    def new_type(kind: Any, element: Any, shape: Any) -> Any:
        key = (element.name, *[getattr(size, "value", size) for size in shape])
        if key not in types:
            types[key] = made = object.__new__(kind)
            make_type(made, element, shape)
        return types[key]

    def new_tensor(self: Any, handle: Any, kind: Any) -> None:
        if kind.name in derived:
            self.handle, self.type = handle, kind
            self.shape, self.numel, self.dtype = derived[kind.name]
        else:
            make_tensor(self, handle, kind)
            derived[kind.name] = self.shape, self.numel, self.dtype

    block.__new__, block.__init__ = new_type, lambda *_: None
    tensor.__init__ = new_tensor
