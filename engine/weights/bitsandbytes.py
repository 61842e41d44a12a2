"""4-bit and 8-bit weights as bitsandbytes stores them: nf4, fp4 and LLM.int8, read without conversion.

A 4-bit weight X (out, in) is ``X`` uint8 (out * in / 2, 1), or the same bytes as wider numbers, the even input's code
in the high half of a byte; ``X.absmax`` fp32, a scale for each block of consecutive inputs, or, if it is nested, bytes
that ``X.nested_quant_map`` (256) and ``X.nested_absmax`` stand for; ``X.quant_map`` (16), the values of the codes; and
``X.quant_state.bitsandbytes__nf4`` or ``__fp4``, bytes of JSON. An 8-bit one of a layer Y is ``Y.weight`` int8 (out,
in), with ``Y.SCB`` fp32 (out), 127 times the scales of its rows.

Layers without these tensors stay as they are, also among others of their kind. Blocks that our groups do not hold are
read as values, and so are weights that are never packed here, as those of a router.
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor

from engine.errors import SafelightError, quoted
from engine.quant import FP4_F32, INT8, NF4_F32, TILE, Scheme
from engine.quant.floats import NormalFloat4
from engine.weights.layout import Expected, Layout, Names, State, TensorSource
from engine.weights.matrices import Matrix, matrices, put_values, released
from engine.weights.safetensors import FLOATING

KINDS = {"nf4": NF4_F32, "fp4": FP4_F32}
SCALES = (".weight.absmax", ".SCB")
_FACTS = r"quant_map|nested_quant_map|quant_state\.bitsandbytes__(nf4|fp4)"
PARTS = rf"(\.(absmax|nested_absmax|{_FACTS}))?"
"""What may follow the name of a 4-bit weight."""
SHARED = rf"model\.encoder\.language_model\.layers\..+\.weight\.({_FACTS})"
"""What transformers stores once more of layers that are stored under another name."""
STORAGE = {"U8": 1, "BF16": 2, "F16": 2, "F32": 4}  # bytes of a number that holds codes
BLOCKS = tuple(32 << power for power in range(8))  # sizes that the library knows
STATE_BYTES = 4096
BY_127 = 1 / 127


def read_scheme(declared: dict[str, Any], source: str) -> Scheme:
    """Returns the packing that bitsandbytes declares.

    Raises:
        SafelightError: another than nf4, fp4 or 8 bits.
    """
    if declared.get("load_in_8bit") is True:
        return INT8
    kind = declared.get("bnb_4bit_quant_type")
    if declared.get("load_in_4bit") is not True or not isinstance(kind, str) or kind not in KINDS:
        raise SafelightError(f"{source}: weights of bitsandbytes' type {quoted(kind)} cannot be read; use nf4 or fp4")
    return KINDS[kind]


def packs(path: str, shape: tuple[int, ...], names: Names, checkpoint: TensorSource) -> bool:
    """Returns True if a weight (..., out, in) of the network can keep the codes that a checkpoint has of it."""
    return all(_has_groups(matrix, checkpoint) for matrix in matrices(path, names.released(path), shape))


def _has_groups(matrix: Matrix, checkpoint: TensorSource) -> bool:
    if f"{matrix.name}.SCB" in checkpoint.headers:
        return True
    absmax = checkpoint.headers.get(f"{matrix.name}.weight.absmax")
    blocks, (out, inputs) = math.prod(absmax.shape) if absmax is not None else 0, matrix.shape
    group = NF4_F32.group_size
    return blocks > 0 and inputs % group == 0 and blocks <= out * inputs // group


def layout(state: State, names: Names, checkpoint: TensorSource) -> Layout:
    """Returns the layout for a network in which the packed layers are installed.

    Raises:
        SafelightError: experts are packed in one piece.
    """
    expected = released(state, names)
    for path, shape in state.shapes.items():
        name = names.released(path)
        if len(shape) < 2:
            continue
        if len(shape) == 3 and f"{name}.absmax" in checkpoint.headers:
            raise SafelightError(
                f"{checkpoint.folder}: tensor {name} holds all experts of a layer as bitsandbytes packs them in one "
                "piece, which cannot be read; use a checkpoint whose experts are packed one by one, or in bf16"
            )
        for matrix in matrices(path, name, shape):
            weight = f"{matrix.name}.weight"
            if f"{weight}.absmax" in checkpoint.headers:
                tensors = _four_bit
            elif f"{matrix.name}.SCB" in checkpoint.headers:
                tensors = _eight_bit
            else:
                if len(shape) == 3 and weight in checkpoint.headers:  # an expert that is not packed, among others
                    expected.pop(name, None)
                    put = partial(state.put, path, place=matrix.place)
                    expected[weight] = Expected(matrix.shape, FLOATING, path, put)
                continue
            expected.pop(name, None)
            expected |= tensors(state, matrix, checkpoint)
    return expected


def _keeps(state: State, matrix: Matrix, scheme: Scheme) -> bool:
    """Returns True if the network keeps the codes of a matrix, which are of ``scheme``.

    Raises:
        SafelightError: it keeps others.
    """
    module = state.packed.get(matrix.path)
    if module is not None and module.scheme != scheme:
        raise SafelightError(f"tensor {matrix.name}.weight is packed as {scheme}; config.json declares {module.scheme}")
    return module is not None


def _eight_bit(state: State, matrix: Matrix, checkpoint: TensorSource) -> Layout:
    name, out = matrix.name, matrix.shape[0]
    is_packed = _keeps(state, matrix, INT8)

    def put_codes(codes: Tensor) -> None:
        if is_packed:
            matrix.put(state, "codes", codes)
        else:
            put_values(state, matrix, codes.float() * row_scales(checkpoint.read(f"{name}.SCB")).T)

    def row_scales(stored: Tensor) -> Tensor:
        if not bool((stored.isfinite() & (stored >= 0)).all()):
            raise SafelightError(f"tensor {name}.SCB holds scales that are not positive; download the model again")
        return stored.float().view(1, out) * BY_127

    def put_scales(stored: Tensor) -> None:
        scales = row_scales(stored)
        if is_packed:
            matrix.put(state, "scales", scales)

    def check_order(order: Tensor) -> None:
        if int(order) != 0:
            raise SafelightError(f"tensor {name}.weight_format asks for codes in another order; save the model again")

    tensors = {
        f"{name}.weight": Expected(matrix.shape, ("I8",), matrix.path, put_codes),
        f"{name}.SCB": Expected((out,), FLOATING, matrix.path, put_scales),
    }
    if f"{name}.weight_format" in checkpoint.headers:
        tensors[f"{name}.weight_format"] = Expected((), ("U8",), matrix.path, check_order)
    return tensors


def _four_bit(state: State, matrix: Matrix, checkpoint: TensorSource) -> Layout:
    weight, headers = f"{matrix.name}.weight", checkpoint.headers
    (out, inputs), count = matrix.shape, math.prod(matrix.shape)
    kind = next((kind for kind in KINDS if f"{weight}.quant_state.bitsandbytes__{kind}" in headers), "nf4")
    facts, is_packed = f"{weight}.quant_state.bitsandbytes__{kind}", _keeps(state, matrix, KINDS[kind])
    numbers = -(-count // 2) // STORAGE.get(headers[weight].dtype if weight in headers else "U8", 1)

    def read_state() -> dict[str, Any]:
        try:
            described = json.loads(bytes(checkpoint.read(facts).tolist()))
        except (ValueError, RecursionError):
            described = None
        if (
            not isinstance(described, dict)
            or described.get("shape") != [out, inputs]
            or not _is_block(described.get("blocksize"))
        ):
            raise SafelightError(f"tensor {facts} does not describe {[out, inputs]} codes; download the model again")
        return described

    def read_scales(group: int) -> Tensor:
        """Returns the scales of ``group`` consecutive inputs, fp32."""
        known, absmax = read_state(), checkpoint.read(f"{weight}.absmax")
        if absmax.dtype == torch.uint8:
            size, offset = known.get("nested_blocksize"), known.get("nested_offset")
            own, book = (checkpoint.read(f"{weight}.nested_{part}").float() for part in ("absmax", "quant_map"))
            if not _is_block(size) or -(-len(absmax) // size) != len(own) or type(offset) is not float:
                raise SafelightError(f"tensor {facts} does not describe its nested scales; download the model again")
            absmax = book[absmax.long()] * own.repeat_interleave(size)[: len(absmax)] + torch.tensor(offset)
        if len(absmax) != -(-count // known["blocksize"]) or not bool(absmax.isfinite().all()):
            raise SafelightError(f"tensor {weight}.absmax holds no scale for each block; download the model again")
        return absmax.float().repeat_interleave(known["blocksize"] // group)[: count // group]

    def put_codes(stored: Tensor) -> None:
        packed = stored.contiguous().view(torch.uint8).flatten()
        if is_packed:
            matrix.put(state, "codes", _to_tiles(packed).view(out, -1))
            return
        nibbles = torch.stack([packed >> 4, packed & 15], dim=-1).flatten()[:count]
        values = torch.tensor(_book(KINDS[kind]))[nibbles.long()]
        put_values(state, matrix, (values * read_scales(1)).view(out, inputs))

    def put_scales(_stored: Tensor) -> None:
        if is_packed:
            matrix.put(state, "scales", read_scales(KINDS[kind].group_size).view(out, -1).T)

    def check_book(book: Tensor) -> None:
        if not torch.allclose(book.float(), torch.tensor(_book(KINDS[kind])), rtol=0, atol=1e-6):
            raise SafelightError(f"tensor {weight}.quant_map holds other values than those of {kind}")

    def expected(
        shape: tuple[int, ...], dtypes: tuple[str, ...] = FLOATING, put: Any = lambda _tensor: None
    ) -> Expected:
        return Expected(shape, dtypes, matrix.path, put)

    absmax, described = headers[f"{weight}.absmax"], headers.get(facts)
    has_nested = absmax.dtype == "U8"
    length = described.shape if described is not None and math.prod(described.shape) <= STATE_BYTES else (STATE_BYTES,)
    tensors = {
        weight: expected((numbers, 1), tuple(STORAGE), put_codes),
        f"{weight}.absmax": expected((math.prod(absmax.shape),), ("U8",) if has_nested else FLOATING, put_scales),
        f"{weight}.quant_map": expected((16,), put=check_book),
        facts: expected(length, ("U8",)),
    }
    if has_nested:
        nested = headers.get(f"{weight}.nested_absmax")
        tensors[f"{weight}.nested_absmax"] = expected((math.prod(nested.shape) if nested is not None else 1,))
        tensors[f"{weight}.nested_quant_map"] = expected((256,))
    return tensors


def _is_block(size: object) -> TypeGuard[int]:
    return type(size) is int and size in BLOCKS


def _to_tiles(packed: Tensor) -> Tensor:
    """Returns bytes (N,) of codes, the even input's in the high half, as our tiles of 32 bytes."""
    first, second = packed.view(-1, 2, TILE // 4).transpose(0, 1).contiguous()  # inputs 0 to 31 and 32 to 63
    return torch.stack([first >> 4 | second & 0xF0, first & 15 | second << 4], dim=-1).flatten()


def _book(scheme: Scheme) -> tuple[float, ...]:
    assert isinstance(scheme, NormalFloat4)
    return scheme.book
