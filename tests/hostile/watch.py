"""Runs hostile cases and measures each: time, memory, exceptions, files touched elsewhere.

Works in a process of its own: the parent ends it where a case hangs, and sees which case it was where it dies.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from engine import SafelightError
from tests.hostile.kind import Kind

ADDRESS_SPACE_ABOVE = 4 * 2**30
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGING = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
             "shutil.rmtree", "shutil.move", "sqlite3.connect"}  # fmt: skip


class Fence:
    """Notes what the process opens for writing, removes, renames or makes outside a folder while it is up."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.crossed: list[str] = []
        sys.addaudithook(self._see)

    @contextmanager
    def around(self, folder: Path) -> Iterator[None]:
        """Only ``folder`` may be changed within."""
        self.crossed, self.folder = [], os.path.realpath(folder)
        try:
            yield
        finally:
            self.folder = None

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        paths: tuple[Any, ...] = ()
        if event == "open" and len(args) == 3 and isinstance(args[2], int) and args[2] & _WRITING:
            paths = args[:1]
        elif event == "os.symlink":
            paths = args[1:2]  # the link; where it leads is no change
        elif event in _CHANGING:
            paths = args[:2] if event in ("os.rename", "os.link", "shutil.move") else args[:1]
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                name = os.fsdecode(path)
                if event in ("os.remove", "os.rmdir") and args[1] != -1:  # in an open folder, as ``rmtree`` does it
                    name = os.path.join(os.readlink(f"/proc/self/fd/{args[1]}"), name)
                harmless = event in ("open", "os.mkdir") and _is_device(name)
                if not harmless and not self._is_inside(name):
                    self.crossed.append(f"{event} {name}")

    def _is_inside(self, path: str) -> bool:
        if path in (":memory:", ""):
            return True
        with contextlib.suppress(ValueError):
            full = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            return full == self.folder or full.startswith(f"{self.folder}{os.sep}")
        return True  # NUL in the name: nothing can come of it


def _is_device(path: str) -> bool:
    """True if it may be written to, and no folder of its name can be made."""
    with contextlib.suppress(ValueError):
        if path.startswith("/proc"):  # where nothing at all can be made
            return not os.path.isfile(path)
        return path.startswith("/dev/") and os.path.exists(path) and not os.path.isdir(path)
    return False


def _memory(name: str) -> int:
    """Bytes of a line of this process's status: VmRSS now, VmHWM the peak since it was last reset."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def attempt(kind: Kind, seed: int, index: int, fence: Fence) -> dict[str, Any]:
    """Make one case, let it try, and return how it went."""
    box = Path(tempfile.mkdtemp(prefix=f"hostile-{kind.name}-"))
    folder = box / "inside"
    folder.mkdir()
    result: dict[str, Any] = {"index": index, "error": "", "refused": False}
    try:
        run = kind.make(Random(f"{kind.name}:{seed}:{index}"), folder)
        size = _size(folder)
        _reset_peak()
        before = _memory("VmRSS")
        held = None
        cpu, wall = time.thread_time(), time.perf_counter()
        try:
            with fence.around(folder):
                held = run()
        except SafelightError as error:
            result["refused"] = True
            if "\n" in str(error) or len(str(error)) > 1_000:
                result["error"] = "the message is no single readable line"
        except BaseException as error:  # also SystemExit: what ends a process is a finding too
            result["error"] = "".join(traceback.format_exception(error)[-4:])[-1500:]
        result["cpu"] = time.thread_time() - cpu if held is None else held
        result["wall"] = time.perf_counter() - wall
        result["memory"] = max(0, _memory("VmHWM") - before - size)
        result["outside"] = fence.crossed[:3]
        kind.clean()
    finally:
        shutil.rmtree(box, ignore_errors=True)
    return result


def run_lot(kind: Kind, seed: int, first: int, count: int, report: Callable[[dict[str, Any]], None]) -> None:
    """Run cases ``first`` to ``first + count`` of a kind in this process; report each beginning and end."""
    fence = Fence()
    sys.dont_write_bytecode = True  # of what a case is the first to import
    kind.prepare()
    warm = Path(tempfile.mkdtemp(prefix="hostile-warm-"))  # what is imported or cached with it is no case's time
    kind.make(Random(f"{kind.name}:warm"), warm)
    shutil.rmtree(warm, ignore_errors=True)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE_ABOVE, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for index in range(first, first + count):
        report({"begins": index})
        report(attempt(kind, seed, index, fence))
