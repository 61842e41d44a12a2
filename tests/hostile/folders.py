"""Hostile homes: ``python -m tests.hostile.folders`` opens the real window on each, in a process of its own.

Beside what is hostile lies a library with conversations that nobody has touched. Told of each folder: the seconds from
the first line of ``app.main`` until the window is painted and the conversations are listed, what was said, whether the
untouched ones are listed and open, and how the process ended. Exits with 1 where one did not hold. The engine's model
is left out: it is loaded after the window is there, and has tests of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile import homes
from tests.hostile.homes import HOMES, Home

SECONDS = 3.0  # to open
HANGS = 60.0
NO_MODEL = "no model in this run"


@dataclass
class Told:
    """What a window said of itself; ``faults`` are in words."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0  # of the whole process until then, which a busy machine changes less
    said: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.faults and self.seconds <= SECONDS

    def __str__(self) -> str:
        late = [f"opened after more than {SECONDS:.0f} s"] if self.seconds > SECONDS else []
        verdict = "; ".join([*self.faults, *late]) or "ok"
        said = self.said[:300] or "(nothing said)"
        return f"{self.name:30} {self.seconds:6.2f} s, {self.cpu:5.2f} s of CPU  {verdict}\n    {said}"


def open_one(box: Path, *names: str) -> Told:
    """Build a home in an empty folder, open the window on it, and compare what is seen with what must be."""
    home = Home(box)
    expected = homes.build(home, *names)
    told = Told(" ".join(names))
    environment = os.environ | home.environment() | {"QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-m", "tests.hostile.folders", "--child"]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, complaints = child.communicate(timeout=HANGS)
    except subprocess.TimeoutExpired:
        child.kill()
        out, complaints = child.communicate()
        told.faults.append(f"hung for {HANGS:.0f} s")
    finally:
        home.release()
    seen: dict[str, Any] = {}
    for line in out.splitlines():
        seen |= json.loads(line)
    told.seconds, told.cpu = seen.get("seconds", 0.0), seen.get("cpu", 0.0)
    told.said = " | ".join(seen.get("said", []))
    judge(told, seen, expected, child.returncode, complaints)
    if homes.SPOKEN.intersection(names) and not told.said:
        told.faults.append("said nothing")
    return told


def judge(told: Told, seen: dict[str, Any], expected: set[str], code: int, complaints: str) -> None:
    """Note what is not as it must be."""
    if "seconds" not in seen:
        told.faults.append("did not open")
    if missing := sorted(expected - set(seen.get("listed", []))):
        told.faults.append(f"not listed: {missing}")
    if closed := sorted(expected & set(seen.get("shut", []))):
        told.faults.append(f"did not open: {closed}")
    if code:
        told.faults.append(f"ended with {code}")
    if "Traceback" in complaints:
        told.faults.append(f"traceback: {complaints.strip().splitlines()[-1][:200]}")


# --- the child ---------------------------------------------------------------------------------------------------


def child() -> int:
    """Open the window as a user does, tell what is seen, open what can be opened, and close it."""
    from PySide6.QtCore import QTimer

    from app.library import Summary
    from app.main import STARTED, application, run
    from app.window.main_window import MainWindow
    from engine import SafelightError
    from engine.service import LocalBackend

    def no_model(*_: object, **__: object) -> object:
        raise SafelightError(NO_MODEL)

    LocalBackend.load_model = no_model  # type: ignore[assignment, method-assign]
    app = application()

    def look() -> None:
        window = next((found for found in app.topLevelWidgets() if isinstance(found, MainWindow)), None)
        if window is None or not window._painted or window.notices.is_starting:
            return
        timer.stop()
        tell(seconds=time.perf_counter() - STARTED, cpu=time.process_time())
        rows = [row for row in window.sidebar.list.rows.rows if isinstance(row, Summary)]
        notices = (window.pages.chat().page.notice, window.notices.notice, window.pages.models().page.notice)
        said = [notice.message.text() for notice in notices if notice.message.text() not in ("", NO_MODEL)]
        tell(listed=[row.title for row in rows], said=said)
        shut = []
        for row in rows:
            if row.title in homes.UNTOUCHED:
                window.context.session.open(row.id)
                turns = window.context.session.chat.turns
                if not turns or homes.ANSWER not in turns[-1].answer.text:
                    shut.append(row.title)
        tell(shut=shut)
        window.close()

    timer = QTimer()
    timer.timeout.connect(look)
    timer.start(5)
    return run()


def tell(**facts: object) -> None:
    """A line of JSON for the parent."""
    print(json.dumps(facts), flush=True)


# --- the command -------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.folders", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these folders")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.child:
        return child()
    tolds = []
    for name in args.names or HOMES:
        box = Path(tempfile.mkdtemp(prefix="hostile-home-"))
        try:
            told = open_one(box, name)
        finally:
            shutil.rmtree(box, ignore_errors=True)
        tolds.append(told)
        if not args.json:
            print(told, flush=True)
    if args.json:
        print(json.dumps([vars(told) for told in tolds], indent=2))
    else:
        held = sum(told.held for told in tolds)
        print(f"{held} of {len(tolds)} hold; slowest {max(told.seconds for told in tolds):.2f} s")
    return int(not all(told.held for told in tolds))


if __name__ == "__main__":
    sys.exit(main())
