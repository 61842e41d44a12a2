"""The computer that models run on: its memory, its graphics card, and whether torch can compute on that card.

Cards that it lacks are known by their memory, to plan for.

The module needs neither torch nor psutil; ``look`` imports them, which takes seconds.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import SafelightError, quoted

GIB = 2**30
CARDS = {
    "rtx-3090": round(23.68 * GIB),
    "rtx-4090": round(23.64 * GIB),
    "rtx-5090": round(31.36 * GIB),
    "a100": round(79.25 * GIB),
    "h100": round(79.11 * GIB),
    "h200": round(139.81 * GIB),
}
"""Total bytes of each card as CUDA reports them."""
_SIZE = re.compile(r"(\d{1,4}(?:\.\d{1,3})?) ?GB", re.I)


@dataclass(frozen=True)
class AbsentCard:
    """A card by its name, or by its size if the name is unknown, and its bytes for CUDA."""

    name: str
    total_bytes: int


def card_of(text: str) -> AbsentCard:
    """Reads a card's name among ``CARDS``, or its memory in decimal gigabytes, such as "24GB".

    Raises:
        SafelightError: it is neither.
    """
    name = text.strip().lower()
    if name in CARDS:
        return AbsentCard(name, CARDS[name])
    size = _SIZE.fullmatch(name)
    if size is None or not 0.1 <= float(size[1]) <= 9999:
        raise SafelightError(f"{quoted(text)} is not a known card; give {', '.join(CARDS)}, or a size such as 24GB")
    return AbsentCard(f"a card of {float(size[1]):g} GB", round(float(size[1]) * 1e9))


Maker = Literal["NVIDIA", "AMD", "Intel", "Apple"]
DRM = Path("/sys/class/drm")
VENDORS: dict[str, Maker] = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
SMI_SECONDS = 10
NO_WINDOW: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # on Windows no console flashes up


@dataclass(frozen=True)
class GraphicsCard:
    """A graphics card; ``name`` is empty and ``total_bytes`` 0 if the system does not say."""

    maker: Maker
    name: str = ""
    total_bytes: int = 0


@dataclass(frozen=True)
class Machine:
    """A computer. ``device`` is what to plan for on it; a card that is only imagined is planned for as absent."""

    memory_bytes: int
    card: GraphicsCard | None = None
    is_usable: bool = False  # torch computes on the card
    has_cuda: bool = False  # torch is built for NVIDIA's cards
    device: str | AbsentCard = "auto"


def look() -> Machine:
    """Describes this computer."""
    import psutil  # these two take long, and a window is painted without them
    import torch  # see above

    memory = int(psutil.virtual_memory().total)  # type: ignore[no-untyped-call, unused-ignore]
    if not torch.cuda.is_available():
        return Machine(memory, unused_card(), has_cuda=torch.version.cuda is not None)
    name, (_, total) = torch.cuda.get_device_name(0), torch.cuda.mem_get_info(0)
    if torch.version.hip is not None:  # kernels are written for, and compiled for, NVIDIA's
        return Machine(memory, GraphicsCard("AMD", name, total), device="cpu")
    return Machine(memory, GraphicsCard("NVIDIA", name, total), is_usable=True, has_cuda=True)


def unused_card(drm: Path = DRM) -> GraphicsCard | None:
    """Returns the card that torch does not compute on: NVIDIA's first, as it could; then the one with most memory.

    drm: the folder in which Linux lists cards.
    """
    if (card := _by_nvidia_smi()) is not None:
        return card
    cards = [GraphicsCard("Apple")] if platform.system() == "Darwin" else list(_in_drm(drm))
    return max(cards, key=lambda card: (card.maker == "NVIDIA", card.total_bytes), default=None)


def _by_nvidia_smi() -> GraphicsCard | None:
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SMI_SECONDS, check=True, creationflags=NO_WINDOW
        )
        name, _, mebibytes = done.stdout.strip().splitlines()[0].rpartition(", ")
        return GraphicsCard("NVIDIA", name, int(mebibytes) * 2**20)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _in_drm(folder: Path) -> Iterator[GraphicsCard]:
    for vendor in sorted(folder.glob("card*/device/vendor")):
        maker = VENDORS.get(_read(vendor))
        if maker is not None:
            size = _read(vendor.with_name("mem_info_vram_total"))  # AMD's driver alone has it
            yield GraphicsCard(maker, "", int(size) if size.isdecimal() else 0)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
