"""Draws the icon's sizes and formats from ``assets/icons/safelight.svg``; run again when it changes. Needs no display.

Linux takes the PNG files under ``hicolor``, Windows ``safelight.ico``, macOS ``safelight.icns``.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize
from PySide6.QtGui import QGuiApplication, QIcon

ICONS = Path(__file__).resolve().parent.parent / "assets" / "icons"
LINUX = (16, 24, 32, 48, 64, 128, 256, 512)  # pixels
WINDOWS = (16, 24, 32, 48, 64, 128, 256)
MACOS = {16: b"icp4", 32: b"icp5", 64: b"icp6", 128: b"ic07", 256: b"ic08", 512: b"ic09", 1024: b"ic10"}


def png(source: Path, pixels: int) -> bytes:
    """The drawing at a size, as a PNG file.

    Raises:
        ValueError: Qt could not draw it.
    """
    buffer = QBuffer(data := QByteArray())
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image = QIcon(str(source)).pixmap(QSize(pixels, pixels), 1.0).toImage()
    if image.width() != pixels or not image.save(buffer, "PNG"):
        raise ValueError(f"{source} could not be drawn at {pixels} pixels")
    return bytes(data.data())


def ico(images: dict[int, bytes]) -> bytes:
    """A Windows icon of PNG images by size: a directory, then the images. 256 pixels are written as 0."""
    head = struct.pack("<HHH", 0, 1, len(images))
    at = len(head) + 16 * len(images)
    entries = b""
    for pixels, image in images.items():
        entries += struct.pack("<BBBBHHII", pixels % 256, pixels % 256, 0, 0, 1, 32, len(image), at)
        at += len(image)
    return head + entries + b"".join(images.values())


def icns(images: dict[int, bytes]) -> bytes:
    """A macOS icon of PNG images by size: blocks of a type, a length with its own eight bytes, and the image."""
    blocks = b"".join(MACOS[pixels] + struct.pack(">I", len(image) + 8) + image for pixels, image in images.items())
    return b"icns" + struct.pack(">I", len(blocks) + 8) + blocks


def main() -> int:
    app = QGuiApplication.instance() or QGuiApplication([])
    source = ICONS / "safelight.svg"
    hicolor = ICONS / "hicolor"
    for pixels in LINUX:
        folder = hicolor / f"{pixels}x{pixels}" / "apps"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "safelight.png").write_bytes(png(source, pixels))
    (ICONS / "safelight.ico").write_bytes(ico({pixels: png(source, pixels) for pixels in WINDOWS}))
    (ICONS / "safelight.icns").write_bytes(icns({pixels: png(source, pixels) for pixels in MACOS}))
    del app
    return 0


if __name__ == "__main__":
    sys.exit(main())
