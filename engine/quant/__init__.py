"""Packed weights: the schemes by name, and the scheme of each part of a model.

To add a scheme, write a class as in ``integers`` and give it a line in ``precision.PRECISIONS``; that line's name also
goes to ``QUANTIZATIONS`` in ``app/cli/options.py``, which needs no torch. Its weights can then be packed, stored,
planned for, loaded and multiplied by the plain path. Kernels for it are rows of ``engine.kernels.table``.
"""

from engine.quant.floats import E2M1_VALUES, FP4_F32, FP4_VALUES, NF4, NF4_F32, NF4_VALUES, NVFP4
from engine.quant.integers import INT4, INT4_G64, INT8, INT8_G16, INT8_G32, UINT4
from engine.quant.nibbles import TILE, join_nibbles, split_nibbles, to_blocks
from engine.quant.precision import DEFAULT, PRECISIONS, Precision
from engine.quant.scheme import (
    AT_ONCE,
    SCHEMES,
    Packed,
    Scheme,
    TensorSpec,
    empty,
    pack,
    register,
    unpack,
)

__all__ = [
    "AT_ONCE",
    "DEFAULT",
    "E2M1_VALUES",
    "FP4_F32",
    "FP4_VALUES",
    "INT4",
    "INT4_G64",
    "INT8",
    "INT8_G16",
    "INT8_G32",
    "NF4",
    "NF4_F32",
    "NF4_VALUES",
    "NVFP4",
    "PRECISIONS",
    "SCHEMES",
    "TILE",
    "UINT4",
    "Packed",
    "Precision",
    "Scheme",
    "TensorSpec",
    "empty",
    "join_nibbles",
    "pack",
    "register",
    "split_nibbles",
    "to_blocks",
    "unpack",
]
