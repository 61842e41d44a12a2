"""GGUF files: the header within bounds, and each tensor as the ``gguf`` package's own reader has it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

from engine import SafelightError, catalog
from engine.weights.gguf import checkpoint
from engine.weights.gguf.checkpoint import TYPES, GGUFCheckpoint
from engine.weights.gguf.header import GGUFHeader
from tests.engine import gguf_files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return gguf_files.tiny(path, catalog.resolve(catalog.GAPS), gguf_files.q4_k_m)


def test_it_reads_what_the_packages_reader_reads(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "AT_ONCE", 50 * 256)  # the table in three pieces
    header, oracle = GGUFHeader.read(whole), GGUFReader(whole)
    own = {name: field.contents() for name, field in oracle.fields.items() if not name.startswith("GGUF.")}
    assert header.values.keys() == own.keys()
    for name, value in header.values.items():
        assert value == (pytest.approx(own[name], rel=1e-6) if isinstance(value, float) else own[name])
    assert header.values["diffusion.eb_entropy_bound"] == 0.2  # and not what fp32 has for it
    read = GGUFCheckpoint(header)
    pieces = [name for name in read.headers if name.startswith("token_embd")]
    assert pieces == [f"token_embd.weight{place}" for place in ("[0:50]", "[50:100]", "[100:128]")]
    for tensor in oracle.tensors:
        meant = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape.tolist()[::-1])
        got = [read.read(name) for name in read.headers if name.partition("[")[0] == tensor.name]
        joined = torch.stack(got) if meant.ndim == 3 else torch.cat(got)
        assert np.array_equal(joined.numpy(), meant)


def test_every_type_that_is_read_can_be_dequantised() -> None:
    for name in TYPES:
        numbers, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        assert dequantize(np.zeros((2, size), np.uint8), GGMLQuantizationType[name]).shape == (2, numbers)


# --- bad input --------------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: str = "a", shape: tuple[int, ...] = (32,), kind: int = 0, start: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, start)


def made(*keys: bytes, tensors: tuple[bytes, ...] = (), version: int = 3, counts: tuple[int, ...] = ()) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", version, *(counts or (len(tensors), len(keys))))
    return head + b"".join(keys) + b"".join(tensors) + bytes(256)


ENDLESS = 2**63
BAD = {
    "no GGUF": (b"PK\x03\x04" + bytes(40), "is not a GGUF file"),
    "version 1": (made(version=1), "is of GGUF version 1"),
    "big-endian": (made(version=3 << 24), "is written for big-endian machines"),
    "tensors without end": (made(counts=(ENDLESS, 0)), "of shape \\(\\) does not divide"),
    "a long list": (made(key("a", 9, struct.pack("<IQ", 5, 10_000))), "is truncated"),
    "a list without end": (made(key("a", 9, struct.pack("<IQ", 5, ENDLESS))), "more than 2,097,152 items"),
    "a list of lists": (made(key("a", 9, struct.pack("<IQ", 9, 1))), "has a list of values of the type 9"),
    "an unknown value": (made(key("a", 77, b"")), "has a value of the unknown type 77"),
    "one of several parts": (made(key("split.count", 2, b"\4\0")), r"is one of 4 parts .*NAME-00001-of-00004.gguf"),
    "an odd alignment": (made(key("general.alignment", 4, b"\0\0\0\0")), "aligned to 0 bytes"),
    "no numbers": (made(tensors=(tensor(shape=(0,)),)), "does not divide into blocks of 1"),
    "half a block": (made(tensors=(tensor(shape=(33, 2), kind=8),)), r"of shape \(2, 33\) does not divide into blocks"),
    "an unknown type": (made(tensors=(tensor(kind=4),)), "in the unknown type 4; use a file in Q8_0"),
    "past the end": (made(tensors=(tensor(start=200),)), "is truncated: tensor 'a' ends at byte"),
    "a header out of all proportion": (made(key("a", 8, text("x" * 2000))), "has a header of more than 1,000 bytes"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_header_is_refused(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.weights.gguf.header.HEADER_BYTES", 1000)
    data, message = BAD[fault]
    (tmp_path / "bad.gguf").write_bytes(data)
    with pytest.raises(SafelightError, match=message) as caught:
        GGUFHeader.read(tmp_path / "bad.gguf")
    assert str(caught.value).startswith(f"{tmp_path / 'bad.gguf'} ")


def test_matrices_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "MAX_PIECES", 1000)
    path = tmp_path / "sparse.gguf"
    path.write_bytes(made(tensors=(tensor(shape=(1, 1, 2**34)),)))
    os.truncate(path, 2**37)  # takes no room on the disk
    with pytest.raises(SafelightError, match="holds more than 1,000 matrices"):
        GGUFCheckpoint(GGUFHeader.read(path))


def test_a_file_that_is_cut_off_anywhere_is_refused(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    for size in (*range(0, 12_000, 487), len(data) - 1):
        (tmp_path / "cut.gguf").write_bytes(data[:size])
        with pytest.raises(SafelightError, match=r"is truncated|is not a GGUF"):
            GGUFHeader.read(tmp_path / "cut.gguf")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:200], "tensor a is not whole"),
        (lambda data: data[:-256] + b"\xff" * 256, "values that are not finite"),
    ],
)
def test_what_is_read_is_there_and_finite(change: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(made(tensors=(tensor(shape=(32, 6), kind=8),)))
    read = GGUFCheckpoint(GGUFHeader.read(path))
    assert read.read("a").shape == (6, 32)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(SafelightError, match=message):
        read.read("a")
