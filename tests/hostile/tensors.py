"""safetensors files with hostile headers, made from a sound file.

The format: eight bytes of the header's length, a JSON object of names with dtype, shape and data_offsets, the numbers.
"""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

from tests.hostile import mutate

DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F8_E4M3", "F4", "C64", "f32", "")
SIZES = (0, 1, 2**31, 2**32, 2**61, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1)


def hostile(random: Random, data: bytes) -> bytes:
    """A file with one or two things wrong in it, at times none."""
    length = struct.unpack("<Q", data[:8])[0]
    header, numbers = json.loads(data[8 : 8 + length]), data[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    name = random.choice(names)
    entry: dict[str, Any] = header[name]
    match random.randrange(18):
        case 0:
            return mutate.damaged(random, data)
        case 1:
            return data[: random.randrange(len(data))]
        case 2:
            claimed = random.choice((*SIZES[:10], length - 1, length + 1, len(data), 90 * 2**20))
            return struct.pack("<Q", claimed % 2**64) + data[8:]
        case 3:
            entry["shape"] = [random.choice(SIZES) for _ in range(random.choice((0, 1, 2, 2, 3, 8)))]
        case 4:
            entry["data_offsets"] = [random.choice((*SIZES, *entry["data_offsets"], len(numbers))) for _ in range(2)]
        case 5:
            header[name] = entry | {"data_offsets": header[random.choice(names)]["data_offsets"]}
        case 6:
            entry["dtype"] = random.choice(DTYPES)
        case 7:
            del header[name]
        case 8:
            new = random.choice((*mutate.TEXTS, *mutate.NAMES, name + ".x", name[:-1], name.replace("0", "20000")))
            header[new] = header.pop(name)
        case 9:
            other = random.choice(names)
            header[name], header[other] = header[other], header[name]
        case 10:  # a name twice
            text = json.dumps(header)
            return packed(f'{text[:-1]}, "{name}": {json.dumps(header[random.choice(names)])}}}'.encode(), numbers)
        case 11:
            start = len(numbers)
            header |= {
                f"model.decoder.layers.{index}.extra": {"dtype": "F32", "shape": [0], "data_offsets": [start, start]}
                for index in range(random.choice((1, 100, 20_000)))
            }
        case 12:  # one byte before all others
            for told in names:
                header[told]["data_offsets"] = [offset + 1 for offset in header[told]["data_offsets"]]
            header["model.encoder.vision_tower.a"] = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
            numbers = b"\0" + numbers
        case 13:
            header["__metadata__"] = mutate.value(random)
        case 14:  # numbers that are none
            first, last = entry["data_offsets"]
            wild = random.choice((b"\x80\x7f", b"\xc0\x7f", b"\x80\xff", b"\xff\xff", b"\x00\x00", b"\x7f\x7f"))
            numbers = numbers[:first] + (wild * (last - first))[: last - first] + numbers[last:]
        case 15 | 16:
            return packed(mutate.dumped(random, mutate.tree(random, header)), numbers)
        case _:
            pass
    return packed(json.dumps(header).encode("utf-8", "surrogatepass"), numbers)


def packed(header: bytes, numbers: bytes) -> bytes:
    """The file of a header as it is."""
    return struct.pack("<Q", len(header)) + header + numbers
