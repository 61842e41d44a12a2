"""Reads a document in a process of its own, which ends with it; the window only hears of its pages."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Signal, Slot

from app.documents import formats
from app.system.child import start_module
from app.system.i18n import tr
from app.system.timers import later

OPTION = "--read-document"
"""Command-line option with which the bundled program runs as this process."""
PAGE_SECONDS = 60.0  # for one page, and for the start


@dataclass(frozen=True)
class Document:
    """The pages of a document as Markdown."""

    name: str
    path: Path
    pages: tuple[str, ...]

    @property
    def has_pages(self) -> bool:
        return len(self.pages) > 1

    @property
    def has_text(self) -> bool:
        return any(map(str.strip, self.pages))

    def text(self, chosen: Sequence[int]) -> str:
        """Returns some pages, counted from 0, each after its number; files of a folder have names."""
        if not self.has_pages or self.path.is_dir():
            return "\n\n".join(self.pages[number] for number in chosen)
        return "\n\n".join(f"[{number + 1}]\n\n{self.pages[number]}" for number in chosen)


def pages_in(text: str, count: int) -> list[int] | None:
    """Returns the pages, counted from 0, that a text such as "1-3, 7" names; None if it names others, or none."""
    chosen = list[int]()
    for part in filter(None, (part.strip() for part in text.split(","))):
        span = re.fullmatch(r"(\d{1,6})(?:\s*[-–]\s*(\d{1,6}))?", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, 0)
        if not 1 <= first <= last <= count:
            return None
        chosen += range(first - 1, last)
    return list(dict.fromkeys(chosen)) or None


class DocumentReader(QObject):
    """Reads one document, or pictures of some of its pages. ``close`` ends it without a further signal."""

    progressed = Signal(int, int)  # pages read, and in all
    done = Signal(object)  # the Document, or the pictures as a list of bytes
    failed = Signal(str)  # why, in one sentence

    def __init__(self, path: Path, name: str, pictures: Sequence[int] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path, self._name, self._is_drawing = path, name, bool(pictures)
        self._pages, self._count = list[str](), 0
        self._pictures = list[bytes]()
        self._error = ""
        self._alarm = later(self, self._late, round(PAGE_SECONDS * 1000))
        self._process = process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._ended)
        process.errorOccurred.connect(self._not_started)
        self._alarm.start()
        start_module(process, formats.__name__, OPTION)
        process.write(json.dumps({"path": str(path.absolute()), "pictures": list(pictures)}).encode() + b"\n")

    def close(self) -> None:
        """Ends the process; nothing is said any more."""
        self.blockSignals(True)
        self._alarm.stop()
        self._process.kill()
        self._process.waitForFinished(5_000)

    @Slot()
    def _read(self) -> None:
        while self._process.canReadLine():
            self._alarm.start()
            answer = json.loads(bytes(self._process.readLine().data()))
            self._count = answer.get("pages", self._count)
            self._error = answer.get("error", self._error)
            if "text" in answer:
                self._pages.append(answer["text"])
            elif "picture" in answer:
                self._pictures.append(b64decode(answer["picture"]))
        self.progressed.emit(len(self._pages), self._count)

    @Slot()
    def _late(self) -> None:
        self._error = tr("takes too long to read")
        self._process.kill()

    @Slot(QProcess.ProcessError)
    def _not_started(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # ``finished`` does not follow
            self._ended()

    @Slot()
    def _ended(self) -> None:
        self._alarm.stop()
        read = self._pictures if self._is_drawing else self._pages
        if self._error or not read:
            why = tr(self._error or "takes more memory than a document may")
            self.failed.emit(tr("{name} {why}.", name=self._name, why=why))
        elif self._is_drawing:
            self.done.emit(self._pictures)
        else:
            self.done.emit(Document(self._name, self._path, tuple(self._pages)))
