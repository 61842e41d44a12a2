"""Reads a picture's file as far as its pixels need: size, orientation, and the bytes that go to the decoder.

Comments, notes, colour profiles, thumbnails and further frames are removed. Decoders copy, join and unpack such parts
without a bound on size. Without them the cost of decoding follows from size, length and ``bytes_per_pixel`` alone.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from dataclasses import dataclass

MAX_PARTS = 2**18  # chunks, segments, blocks; 20 MiB of a GIF in blocks of ordinary length are 82 000

_ARRAY_BYTES = 3  # per pixel, in the array that is returned
_BAND_BYTES = 4  # per pixel as Pillow holds it, whatever its mode; some take less
_WEBP_BYTES = 17  # two canvases, the frame's bytes and Pillow's; and copies of the file
_COEFFICIENT_BYTES = 2  # of a JPEG in several scans, all of which are held until the last one

_MARKER = re.compile(rb"\xff[\x02-\xcf\xd8-\xfe]")  # not within a scan's data: stuffed bytes, restarts, filling
_FRAMES = frozenset((0xC0, 0xC1, 0xC2, 0xC9, 0xCA))  # the frame types that are in use
_PROGRESSIVE = frozenset((0xC2, 0xCA))
_TABLES = frozenset((0xC4, 0xCC, 0xDB, 0xDD))  # Huffman, arithmetic, quantization, restart interval
_SCAN, _END, _EXIF = 0xDA, 0xD9, 0xE1
_COLOURS = {0xE0: b"JFIF\0", 0xEE: b"Adobe"}  # segments that say how components become colours
_NOTES = frozenset((0xDC, *range(0xE0, 0xF0), 0xFE))
_EXIF_SIGN = b"Exif\0\0"

_WEBP_CHUNKS = frozenset((b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"VP8 ", b"VP8L", b"EXIF"))

_ORIENTATION, _SHORT = 0x0112, 3  # EXIF's tag, and the type of its value


@dataclass(frozen=True)
class Content:
    """The image of a picture's file; of an animation the first frame.

    data: a file of the same format that decodes to the same pixels.
    width, height: in pixels, as stored: not turned upright.
    orientation: EXIF's, 1 to 8.
    bytes_per_pixel: the most memory that decoding to an array (height, width, 3) takes, the array included.
    scans: how many times decoding passes over all pixels.
    """

    data: bytes
    width: int
    height: int
    orientation: int = 1
    bytes_per_pixel: int = _BAND_BYTES + _ARRAY_BYTES
    scans: int = 1


def content(data: bytes, format_name: str) -> Content:
    """Returns the content of a file of ``PNG``, ``JPEG``, ``GIF`` or ``WEBP``.

    Raises:
        ValueError, LookupError, struct.error: it is damaged, or of more parts than any camera or program writes.
    """
    return {"PNG": _png, "JPEG": _jpeg, "GIF": _gif, "WEBP": _webp}[format_name](data)


def _png(data: bytes) -> Content:
    kept: dict[bytes, bytes] = {}
    pixels: list[bytes] = []
    at = 8
    for _ in range(MAX_PARTS):
        if at + 8 > len(data):
            break
        length, name = struct.unpack_from(">I4s", data, at)
        if name == b"IEND":
            break
        if name == b"IDAT":
            pixels.append(data[at + 8 : at + 8 + length])
        elif name in (b"IHDR", b"PLTE", b"tRNS", b"eXIf"):
            kept[name] = data[at : at + 12 + length]  # with its checksum, which the decoder reads
        at += 12 + length
    else:
        raise ValueError("too many chunks")
    width, height = struct.unpack_from(">II", kept[b"IHDR"], 8)
    notes = kept.pop(b"eXIf", b"")[8:-4]
    joined = b"".join(pixels)
    chunks = (kept[name] for name in (b"IHDR", b"PLTE", b"tRNS") if name in kept)
    return Content(
        b"".join((data[:8], *chunks, _chunk(b"IDAT", joined), _chunk(b"IEND", b""))),
        width,
        height,
        _orientation(notes),
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return b"".join((struct.pack(">I", len(data)), name, data, struct.pack(">I", zlib.crc32(data, zlib.crc32(name)))))


def _jpeg(data: bytes) -> Content:
    colours: dict[int, bytes] = {}
    kept: list[bytes] = []
    frame = b""
    orientation, scans, held = 0, 0, 0.0
    marker = _MARKER.search(data, 2)
    for _ in range(MAX_PARTS):
        if marker is None or (kind := data[marker.start() + 1]) == _END:
            break
        start = marker.start()
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4])
        marker = _MARKER.search(data, end)
        if kind in _NOTES:
            if kind in _COLOURS and data.startswith(_COLOURS[kind], start + 4):
                colours[kind] = data[start:end]
            elif kind == _EXIF and not orientation and data.startswith(_EXIF_SIGN, start + 4):
                orientation = _orientation(data[start + 4 + len(_EXIF_SIGN) : end])
            continue
        if kind in _FRAMES and not frame:
            frame = data[start:end]
        elif kind == _SCAN and frame:
            if not scans and (frame[1] in _PROGRESSIVE or data[start + 4] < frame[9]):
                held = _coefficients(frame)
            scans += 1
            end = len(data) if marker is None else marker.start()  # with the pixels after it
        elif kind not in _TABLES:
            raise ValueError("an unsupported segment of a JPEG")
        kept.append(data[start:end])
    else:
        raise ValueError("too many segments")
    height, width = struct.unpack_from(">HH", frame, 5)
    return Content(
        b"".join((data[:2], *colours.values(), *kept, b"" if marker is None else b"\xff\xd9")),
        width,
        height,
        orientation or 1,
        max(Content.bytes_per_pixel, _BAND_BYTES + math.ceil(held)),
        scans,
    )


def _coefficients(frame: bytes) -> float:
    """Returns the bytes per pixel of all components, from the segment that begins a JPEG's frame."""
    sampling = [frame[10 + 3 * place + 1] for place in range(frame[9])]
    areas = [(shape >> 4) * (shape & 15) for shape in sampling]
    whole = max(shape >> 4 for shape in sampling) * max(shape & 15 for shape in sampling)
    return _COEFFICIENT_BYTES * sum(areas) / whole


def _gif(data: bytes) -> Content:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _palette_bytes(flags)
    head, control = data[:at], b""
    start = 0  # of the image
    in_blocks = False
    for _ in range(MAX_PARTS):
        if in_blocks:
            size = data[at] if at < len(data) else 0  # a block whose end is missing is left to the decoder
            at += 1 + size
            in_blocks = size > 0
            if start and not in_blocks:
                break
        elif data[at] == 0x21:  # an extension; only the one with the transparent colour is kept
            if data[at + 1] == 0xF9 and data[at + 2] >= 4:
                control = bytes((0x21, 0xF9, 4, data[at + 3] & 1, 0, 0, data[at + 6], 0))
            at += 2
            in_blocks = True
        elif data[at] == 0x2C:
            start = at
            left, top, across, down, flags = struct.unpack_from("<HHHHB", data, at + 1)
            width, height = max(width, left + across), max(height, top + down)  # as decoders widen it
            at += 11 + _palette_bytes(flags)
            in_blocks = True
        else:
            at += 1  # a stray byte, as decoders skip it
    else:
        raise ValueError("too many blocks")
    return Content(b"".join((head, control, data[start:at], b"\x3b")), width, height)


def _palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _webp(data: bytes) -> Content:
    match data[12:16]:
        case b"VP8X":
            width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
        case _:
            raise ValueError("no image comes first")
    kept: dict[bytes, bytes] = {}
    at = 12
    for _ in range(MAX_PARTS):
        if at + 8 > len(data):
            break
        name, length = struct.unpack_from("<4sI", data, at)
        end = at + 8 + length + (length & 1)
        if name in _WEBP_CHUNKS and name not in kept:  # of an animation only the first frame
            kept[name] = data[at:end]
        at = end
    else:
        raise ValueError("too many chunks")
    orientation = _orientation(kept.pop(b"EXIF", b"")[8:].removeprefix(_EXIF_SIGN))
    body = b"".join((b"WEBP", *kept.values()))
    return Content(b"RIFF" + struct.pack("<I", len(body)) + body, width, height, orientation, _WEBP_BYTES)


def _orientation(notes: bytes) -> int:
    """Returns the EXIF orientation, 1 to 8; 1 if the notes have none that can be read."""
    order = {b"II": "<", b"MM": ">"}.get(notes[:2])
    try:
        if order is not None:
            (start,) = struct.unpack_from(f"{order}L", notes, 4)
            (count,) = struct.unpack_from(f"{order}H", notes, start)
            for place in range(start + 2, start + 2 + 12 * count, 12):
                tag, kind, _, turn = struct.unpack_from(f"{order}HHLH", notes, place)
                if tag == _ORIENTATION:
                    return turn if kind == _SHORT and 1 <= turn <= 8 else 1
    except struct.error:
        pass
    return 1
