"""Full disks and held locks at random moments of chats: ``python -m tests.hostile.disk --times 200``.

Each round asks, regenerates, edits, deletes, renames and records runs with a stand-in engine, while another process
locks the library and the disk runs full for a while. Then the library is closed, now and then with the fault still
there, and opened again. All that was on screen, or was reported done, must be there. Prints JSON and exits with 1 where
something is lost.

``tests.hostile.faults`` says how a disk is made full.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from PySide6.QtCore import QCoreApplication, Slot
from PySide6.QtTest import QTest

from app.library import Library
from app.library.conversations import ConversationStore
from app.session import saving
from app.state.chat.conversation import ChatState, Turn
from engine import MINI, GenerationFinished, SafelightError, open_trace
from engine.service import TraceNotKept
from tests.app.desk import Desk, shape
from tests.fake_engine import FakeEngine
from tests.hostile.faults import FullDisk, Locker, NoLongerFiles, can_have_a_namespace, mounted

HANGS = 20.0  # seconds that anything may take to happen
ACTIONS = (6, 14)  # in a round
INSIDE = "--inside"


@dataclass
class Figures:
    """The counts of all rounds."""

    disk: str = ""
    rounds: int = 0
    actions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)


class NotingDesk(Desk):
    """A desk that remembers if it was said that a trace was not kept."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.knows_of_lost_traces = False
        super().__init__(*args, **named)
        self.link.pacing.noted.connect(self.note_reply)

    @Slot(object)
    def note_reply(self, reply: object) -> None:
        self.knows_of_lost_traces |= isinstance(reply, TraceNotKept)


def until(happened: Callable[[], bool]) -> None:
    ends = time.monotonic() + HANGS
    while not happened():
        QTest.qWait(2)
        if time.monotonic() > ends:
            raise TimeoutError("it did not happen")


class Round:
    """One data folder, one session, and what must be there in the end."""

    def __init__(self, random: Random, folder: Path, faults: dict[str, Any], figures: Figures) -> None:
        self._random, self._folder, self._faults, self._figures = random, folder, faults, figures
        self._under: set[str] = set()
        self._fake = FakeEngine(folder / "traces")
        self._fake.steps = random.randint(2, 6)
        self._chats: list[ChatState] = []
        Library.open(folder).close()
        if random.random() < 0.2:
            self._begin_fault("lock")
        self._desk = NotingDesk(self._fake, Library.open(folder))
        self._session = self._desk.session

    def play(self) -> None:
        self._desk.slot.load(MINI)
        until(lambda: self._desk.model is not None)
        for _ in range(self._random.randint(*ACTIONS)):
            self._maybe_change_faults(0.3)
            self._figures.actions += 1
            self._random.choice(self._possible())()
            self._maybe_change_faults(0.2)
            QTest.qWait(self._random.choice((0, 0, 20)))
        ending = self._random.choice(("passes first", "passes first", "passes while closing", "stays"))
        if not self._under:
            ending = "passes first"
        if ending == "passes first":
            self._end_faults()
            until(lambda: self._session.active is None or self._fake.hold)
            until(lambda: self._desk.problems[-1:] in ([], [""]))
        self._close(self._end_faults if ending == "passes while closing" else lambda: None)
        self._end_faults()
        self._check()

    def _close(self, in_thread: Callable[[], None]) -> None:
        """Close as the window does: the engine first."""
        if not self._session.saving.may_close():
            self._end_faults()  # as the user is asked to
        helper = threading.Timer(saving.CLOSING_SECONDS / 3, in_thread)
        helper.start()
        self._fake.gate.release(1000)
        self._desk.link.shutdown()
        with contextlib.redirect_stderr(io.StringIO()):
            self._session.close()
        helper.join()

    # --- faults ------------------------------------------------------------------------------------------------------

    def _maybe_change_faults(self, chance: float) -> None:
        if self._random.random() < chance:
            kind = self._random.choice(sorted(self._faults))
            if kind in self._under:
                self._under.discard(kind)
                self._faults[kind].end()
            else:
                self._begin_fault(kind)

    def _begin_fault(self, kind: str) -> None:
        if self._faults[kind].begin(self._folder):
            self._under.add(kind)
            self._figures.faults[kind] += 1

    def _end_faults(self) -> None:
        for kind in sorted(self._under):
            self._faults[kind].end()
        self._under.clear()

    # --- what a user does --------------------------------------------------------------------------------------------

    def _possible(self) -> list[Callable[[], None]]:
        session = self._session
        acts = [*[lambda: self._run(session.ask, self._text())] * 4, session.open_new, self._describe]
        if session.chat.turns:
            turn = self._random.choice(session.chat.turns)
            acts.append(lambda: self._run(session.ask_again, turn))
            acts.append(lambda: self._run(session.edit, turn, self._text()))
            acts += [lambda: self._choose(turn), lambda: self._remove(turn)]
            acts += [session.undo_remove, self._rename, self._open]
        return acts

    def _text(self) -> str:
        return f"text {self._random.randrange(10**9)}"

    def _run(self, begin: Callable[..., None], *what: object) -> None:
        """A run, with a change of faults in its middle; sometimes it is stopped, or another conversation is shown."""
        random = self._random
        self._finish()
        self._fake.hold = True
        if begin == self._session.ask:
            begin(*what, (), self._desk.loaded)
        else:
            begin(*what, self._desk.loaded)
        answer = self._session.active
        assert answer is not None
        if self._session.chat not in self._chats:
            self._chats.append(self._session.chat)
        early = random.randint(0, self._fake.steps - 1)
        if early:
            self._fake.gate.release(early)
        until(lambda: answer.stats.total_steps >= early)
        self._maybe_change_faults(0.5)
        if random.random() < 0.15:
            self._session.stop()
        if random.random() < 0.15:
            self._session.open_new()
        if random.random() < 0.1:
            return  # it still runs when the next thing is done
        self._finish()

    def _finish(self) -> None:
        self._fake.hold = False
        self._fake.gate.release(100)
        until(lambda: self._session.active is None)
        while self._fake.gate.acquire(blocking=False):
            pass

    def _choose(self, turn: Turn) -> None:
        if self._random.random() < 0.5:
            self._session.choose_answer(turn, self._random.randrange(len(turn.answers)))
        else:
            self._session.choose_prompt(turn, self._random.randrange(len(self._session.chat.alternatives(turn))))

    def _remove(self, turn: Turn) -> None:
        with contextlib.suppress(SafelightError):  # an answer is being written
            if self._random.random() < 0.5:
                self._session.remove(turn)
            else:
                self._session.remove_answer(turn, self._random.randrange(len(turn.answers)))

    def _open(self) -> None:
        ids = [chat.id for chat in self._chats if chat.id is not None]
        if not ids:
            return
        wanted = self._random.choice(ids)
        (known,) = [chat for chat in self._chats if chat.id == wanted]
        self._session.open(wanted)
        if self._session.chat.id != wanted or self._session.chat is known:
            return
        if shape(self._session.chat) != shape(known):
            self._figures.lost.append(f"opened again, conversation {wanted} is another")
        self._chats = [self._session.chat if chat is known else chat for chat in self._chats]

    def _describe(self) -> None:
        self._session.describe(system_prompt=self._text(), preset="default", think=False)

    def _rename(self) -> None:
        id = self._session.conversation
        if id is None:
            return
        with contextlib.suppress(SafelightError):
            self._session.saving.require_saved()
            self._session.library.describe(id, title=self._text())

    # --- what must be there ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        lost, checked = self._figures.lost, self._figures.checked
        library = Library.open(self._folder)
        rescued = saving.bring_in(library)
        there = [
            (shape(chat), chat.system_prompt)
            for chat in (ConversationStore(library).open(summary.id) for summary in library.summaries())
            if chat.turns
        ]
        library.close()
        wanted = [(shape(chat), chat.system_prompt) for chat in self._chats if chat.turns]
        checked["conversations"] += len(wanted)
        checked["rescued"] += bool(rescued)
        for one in wanted:
            if one in there:
                there.remove(one)
            else:
                lost.append(f"a conversation, of {len(wanted)}: {one!r:.1000} is not among {there!r:.1000}")
        if there and not rescued:
            lost.append(f"{len(there)} conversations more than there were: {there!r:.1000}")
        self._check_traces()

    def _check_traces(self) -> None:
        for chat in self._chats:
            for turn in chat.turns:
                trace = turn.answer.trace
                if trace is None or not trace.events or not isinstance(trace.events[-1], GenerationFinished):
                    continue
                if trace.path is None:
                    if not self._desk.knows_of_lost_traces:
                        self._figures.lost.append("a trace was not kept, and nothing was said of it")
                    continue
                self._figures.checked["traces"] += 1
                try:
                    whole = len(open_trace(trace.path).entries) == len(trace.entries)
                except SafelightError as error:
                    self._figures.lost.append(f"a trace: {error}")
                else:
                    if not whole:
                        self._figures.lost.append("a trace is shorter than its run")


# ------------------------------------------------------------------ the command


def run(times: int, seed: int, first: int, folder: Path, faults: dict[str, Any], figures: Figures) -> None:
    """Play so many rounds, each in a folder of its own within ``folder``."""
    for number in range(first, first + times):
        place = folder / f"round-{number}"
        place.mkdir()
        tempfile.tempdir = str(folder if number % 2 else folder.parent)  # a second disk, or not
        before = len(figures.lost)
        one = Round(Random(f"{seed}:{number}"), place, faults, figures)
        try:
            one.play()
        except TimeoutError as error:
            figures.lost.append(f"{error}: {one._desk.problems[-1:]}")
        finally:
            one._end_faults()
            one._fake.gate.release(1000)
            one._desk.link.shutdown()
        figures.lost[before:] = [f"round {number}: {lost}" for lost in figures.lost[before:]]
        figures.rounds += 1
        shutil.rmtree(place, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.disk", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="rounds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if not options.inside and can_have_a_namespace():
        arguments = sys.argv[1:] if argv is None else list(argv)
        command = ["unshare", "-rm", sys.executable, "-m", "tests.hostile.disk", *arguments, INSIDE]
        return subprocess.run(command, check=False).returncode
    app = QCoreApplication.instance() or QCoreApplication([])
    figures = Figures()
    locker = Locker()
    with tempfile.TemporaryDirectory(prefix="hostile-disk-") as name:
        disk = Path(name) / "disk"
        disk.mkdir()
        has_disk = options.inside and mounted(disk)
        full: Any = FullDisk(disk) if has_disk else NoLongerFiles()
        figures.disk = full.name
        try:
            run(options.times, options.seed, options.first, disk, {"lock": locker, "disk full": full}, figures)
        finally:
            locker.close()
            if has_disk:
                subprocess.run(["umount", "-l", str(disk)], check=False)
    del app
    print(json.dumps(vars(figures)))
    return 1 if figures.lost else 0


if __name__ == "__main__":
    sys.exit(main())
