"""The function of each operation, by the scheme of its weights and the kind of device.

The first matching row is used. Rows of plain torch come last and match everything; they are also the oracles. To add a
kernel, write its file, give it the signature of the operation's plain function, and add its row above that one's. To
let a kernel take another scheme, add the scheme to its row, and the decoding of its codes to its file, as in
``cpu_decode.DECODERS`` and ``expert_gemm.CODES``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple

from engine.quant import FP4_F32, INT4, INT4_G64, INT8, INT8_G16, INT8_G32, NF4, NF4_F32, NVFP4, UINT4, Scheme

Kind = Literal["triton", "cpu", "plain"]
"""Which kernels run on a device: those for cards with bf16 matrix units, those for processors, or none."""


class KernelRow(NamedTuple):
    """A function for an operation."""

    operation: str
    schemes: tuple[Scheme | None, ...] | None  # of the weights; None among them: not packed; None alone: any
    needs: Kind | None  # None: nothing
    function: str  # module in this folder, and name


FOUR_BIT = (INT4, INT4_G64, NF4, NVFP4)
BITSANDBYTES = (NF4_F32, FP4_F32)
ROWS = (
    KernelRow("linear", (INT8,), "triton", "linear_w8a16.linear_w8a16"),
    KernelRow("linear", (*FOUR_BIT, UINT4), "triton", "linear_w4a16.linear_w4a16"),
    KernelRow("linear", (*FOUR_BIT, *BITSANDBYTES, INT8, INT8_G16, INT8_G32, UINT4), "cpu", "cpu.linear"),
    KernelRow("linear", None, None, "reference.linear"),
    KernelRow("experts", FOUR_BIT, "triton", "expert_gemm.experts"),
    KernelRow("experts", (*FOUR_BIT, *BITSANDBYTES, INT8), "cpu", "cpu.experts"),
    KernelRow("experts", None, None, "reference.experts"),
    KernelRow("expectation", (INT8,), "cpu", "cpu.expectation"),
    KernelRow("expectation", None, None, "reference.expectation"),
    KernelRow("attend", None, "triton", "attention.attention"),
    KernelRow("attend", None, "cpu", "cpu.attention"),
    KernelRow("attend", None, None, "reference_step.attention"),
    KernelRow("vocabulary_stage", (INT8, None), "triton", "vocabulary.vocabulary_stage"),
    KernelRow("vocabulary_stage", (INT8,), "cpu", "cpu_vocabulary.vocabulary_stage"),
    KernelRow("vocabulary_stage", None, None, "reference_step.vocabulary_stage"),
)


def find(operation: str, scheme: Scheme | None, kind: Kind) -> Callable[..., Any]:
    """Returns the function for an operation on weights of a scheme; None: not packed, or no weights."""
    module, name = _served(operation, scheme, kind)
    return getattr(module, name)


@functools.cache
def _served(operation: str, scheme: Scheme | None, kind: Kind) -> tuple[ModuleType, str]:
    """Returns module and name of that function. Modules are imported on first use: Triton's take a second."""
    for row in ROWS:
        fits_weights = row.schemes is None or scheme in row.schemes
        if row.operation == operation and fits_weights and row.needs in (None, kind):
            module, _, name = row.function.partition(".")
            return import_module(f"engine.kernels.{module}"), name
    raise LookupError(f"no kernel serves {operation}")


def schemes(operation: str, kind: Kind) -> tuple[Scheme, ...]:
    """Returns the schemes for which an operation has its own kernels on a kind of device."""
    rows = [row for row in ROWS if row.operation == operation and row.needs == kind]
    return tuple(scheme for row in rows for scheme in row.schemes or () if scheme is not None)
