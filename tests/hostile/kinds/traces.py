"""Traces: bombs, wrong shapes, counts, orders and ids behind right checksums, and bytes damaged anywhere."""

from __future__ import annotations

import json
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from engine import SafelightError, TraceWriter, open_trace
from engine.forks import Mark
from engine.text.message import image_of
from engine.trace import Parent
from engine.trace.format import HEAD, OPENING, frame, opening
from tests.engine.drawn import picture
from tests.engine.task_runs import FORMAT, decided, decision_header, structured
from tests.engine.traces import header, is_tenth, letter, letters, made_up, write
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

Record = tuple[bytes, bytes, int, int]  # kind, payload, block, step
SHAPES = ((6, 2, 3, 3), (1, 1, 2, 0), (64, 3, 8, 8), (256, 1, 12, 8), (16, 2, 40, 64), (300, 1, 2, None))
KNOWN = (
    b"HEAD",
    b"IMAG",
    b"PIEC",
    b"PREF",
    b"CANV",
    b"STEP",
    b"PINS",
    b"SLOT",
    b"TEXT",
    b"COMM",
    b"DONE",
    b"FAIL",
    b"IDLE",
)
MEGABYTE = 2**20
PICTURE, TEXTS = picture(), (letter, is_tenth, letters)
FIXED: dict[str, Any] = {"id": "0" * 32, "created": "2026-01-01T00:00:00+00:00", "app_version": ""}


@cache
def _runs() -> tuple[bytes, ...]:
    """Valid files of several shapes, of a run that failed, a fork, a decision and a run that fits a format."""
    made = []
    with tempfile.TemporaryDirectory(prefix="hostile-traces-") as folder:
        for place, (length, blocks, steps, top) in enumerate(SHAPES):
            head = header(length, 50, **FIXED)
            if place == 2:
                head = header(length, 50, parent=Parent("1" * 32, 1, 1), marks=(Mark(1, 0, 2),), **FIXED)
            events = list(made_up(length, blocks, steps, top))
            failure = "The card fell out." if place == 1 else ""
            path = write(Path(folder) / f"{place}.sltrace", events[:-1] if failure else events, head, failure)
            made.append(path.read_bytes())
        head = decision_header(**FIXED)
        made.append(write(Path(folder) / "decided.sltrace", decided(head), head).read_bytes())
        head = header(16, 50, output_format=FORMAT, **FIXED)
        made.append(write(Path(folder) / "fits.sltrace", structured(), head).read_bytes())
        message = {"role": "user", "content": "prompt", "images": (image_of(PICTURE),)}
        with TraceWriter(Path(folder) / "seen", header(messages=(message,), **FIXED), *TEXTS, (PICTURE,)) as writer:
            for event in made_up():
                writer.append(event)
        made.append((Path(folder) / "seen").read_bytes())
    return tuple(made)


def records_of(data: bytes) -> list[Record]:
    """Returns the records of a trace, unpacked."""
    found, place = [], OPENING.size
    while place < len(data):
        kind, stored, _, block, step, _, _ = HEAD.unpack_from(data, place)
        place += HEAD.size + stored
        found.append((kind, zlib.decompress(data[place - stored : place]), block, step))
    return found


def _lying(random: Random, kind: bytes, stored: bytes, size: int, block: int, step: int) -> bytes:
    """A record whose head says what it likes, with right checksums."""
    claimed = random.choice((len(stored), len(stored), 0, len(stored) + 1, 2**31, 2**32 - 1))
    head = struct.pack("<4sIIiiI", kind, claimed, size, block, step, zlib.crc32(stored))
    return head + struct.pack("<I", zlib.crc32(head)) + stored


def _bomb(random: Random, like: bytes) -> bytes:
    """A payload far larger than it is packed, with the beginning of a real one."""
    return like[: random.choice((0, 4, 20, len(like)))] + random.choice((b"\0", b"\xff", b"[],", b'"":{', b"a")) * (
        random.choice((1, 1, 1, 4, 20)) * MEGABYTE
    )


def _json(random: Random, payload: bytes) -> bytes:
    match random.randrange(6):
        case 0:
            deep = random.choice((20, 40, 1_000, 100_000))
            return payload[:-1] + b', "deep": ' + b"[" * deep + b"]" * deep + b"}"
        case 1:
            return payload[:-1] + b', "wide": [' + random.choice((b"[],", b"{},", b"1,", b'"",')) * MEGABYTE + b"0]}"
        case _:
            try:
                return mutate.dumped(random, mutate.tree(random, json.loads(payload)))
            except (ValueError, RecursionError):  # it was damaged before
                return mutate.damaged(random, payload)


def _payload(random: Random, payload: bytes) -> bytes:
    if payload[:1] == b"{" and random.random() < 0.7:
        return _json(random, payload)
    match random.randrange(6):
        case 0:
            return _bomb(random, payload)
        case 1:  # counts and figures stand at the beginning
            at = random.randrange(max(1, min(len(payload), 28)))
            number = random.choice((0, 1, 2, 63, 64, 65, 255, 65_535, 2**24, 2**31, 2**32 - 1))
            return payload[:at] + struct.pack("<I", number) + payload[at + 4 :]
        case 2:
            figure = random.choice((float("nan"), float("inf"), -1.0, 1e308, -1e308, 5e-324))
            at = random.choice((0, 8, 16))
            return payload[:at] + struct.pack("<d", figure) + payload[at + 8 :]
        case 3:
            return payload[: random.randrange(len(payload) + 1)]
        case 4:
            return payload + payload[: random.randrange(len(payload) + 1)]
        case _:
            return mutate.damaged(random, payload)


def _long(random: Random, records: list[Record]) -> list[Record]:
    """A block of very many steps, or a run of very many blocks, pieces or texts, each as small as can be."""
    by_kind = {kind: (kind, payload, block, step) for kind, payload, block, step in records}
    head, count = records[0], random.choice((200, 200, 1_000, 1_000, 8_000))
    step, canvas, commit = by_kind[b"STEP"][1], by_kind[b"CANV"][1], by_kind.get(b"COMM", by_kind[b"STEP"])[1]
    match random.randrange(5):
        case 0:
            return [head, (b"CANV", canvas, 0, -1), *((b"STEP", step, 0, one) for one in range(count))]
        case 1:
            blocks: list[Record] = [head]
            for block in range(count // 3):
                blocks += [(b"CANV", canvas, block, -1), (b"STEP", step, block, 0), (b"COMM", commit, block, -1)]
            return blocks
        case 2:
            named = (struct.pack("<IIBH", 1, token, 0, 1) + b"x" for token in range(count))
            return [head, *((b"PIEC", one, -1, -1) for one in named), *records[1:]]
        case 3:
            texts, size = [head], random.choice((10, 100_000))
            for block in range(count // 10):
                text = {"text": [size * (block > 0), "x" * size * (not block)], "thinking": [0, ""]}
                texts += [(b"CANV", canvas, block, -1), (b"STEP", step, block, 0)]
                texts += [(b"TEXT", json.dumps(text).encode(), block, -1), (b"COMM", commit, block, -1)]
            return texts
        case _:
            return [head, *((b"NEWS", b"", -1, -1) for _ in range(count)), *records[1:]]


def _vast(random: Random) -> list[Record]:
    """A canvas as large as may be, whose steps hold nothing and pack to nothing."""
    length, top = random.choice((65_536, 65_537, 20_000)), random.choice((0, 8, 64))
    raw = json.loads(header(6, 50, **FIXED).to_bytes())
    raw["model"]["canvas_length"] = length
    mask = bytes(-(-length // 8))
    step = struct.pack("<ddHH", 0.5, 0.1, top, top > 0) + bytes(16 * length) + mask + bytes(8 * length * top)
    made: list[Record] = [(b"HEAD", json.dumps(raw).encode(), -1, -1)]
    for block in range(random.choice((1, 2))):
        made += [(b"CANV", bytes(4 * length) + mask, block, -1)]
        made += [(b"STEP", step, block, one) for one in range(random.choice((1, 2, 4)))]
    return made


def build(random: Random) -> bytes:
    """The bytes of a hostile trace."""
    data = random.choice(_runs())
    match random.randrange(20):
        case 0:
            return mutate.damaged(random, data)
        case 1:
            return _written(_long(random, records_of(_runs()[random.choice((0, 1))])))
        case 2 if random.random() < 0.3:
            return _written(_vast(random))
        case _:
            return changed(random, records_of(data))


def _written(records: list[Record]) -> bytes:
    packed: dict[tuple[bytes, bytes], bytes] = {}
    parts = [opening()]
    for kind, payload, block, step in records:
        stored = packed.get((kind, payload))
        if stored is None:
            stored = packed[kind, payload] = zlib.compress(payload, 1)
        head = struct.pack("<4sIIiiI", kind, len(stored), len(payload), block, step, zlib.crc32(stored))
        parts += [head, struct.pack("<I", zlib.crc32(head)), stored]
    return b"".join(parts)


def changed(random: Random, records: list[Record]) -> bytes:
    """Some records changed, moved or doubled, all with right checksums and most with right sizes."""
    records = list(records)
    lies: dict[int, bytes] = {}
    for _ in range(1 + random.randrange(3)):
        at = random.randrange(len(records)) if random.random() < 0.8 else 0
        kind, payload, block, step = records[at]
        match random.randrange(10):
            case 0:
                block = random.choice((-2, -1, 0, 1, 5, 2**31 - 1))
            case 1:
                step = random.choice((-2, -1, 0, 1, 9_999, 10_000, 2**31 - 1))
            case 2:
                kind = random.choice(KNOWN)
            case 3:
                other = random.randrange(len(records))
                records[at], records[other] = records[other], records[at]
                continue
            case 4:
                del records[max(1, at) :][: random.choice((1, 1, 5))]
                continue
            case 5:
                size = random.choice((len(payload), 2**32 - 1, 2**28, 0, len(payload) + 1))
                lies[at] = _lying(random, kind, zlib.compress(payload), size, block, step)
                continue
            case _:
                payload = _payload(random, payload)
        records[at] = kind, payload, block, step
    parts = [lies.get(at) or frame(*record) for at, record in enumerate(records)]
    data = opening() + b"".join(parts)
    return mutate.damaged(random, data) if random.random() < 0.1 else data


# --- engine ----------------------------------------------------------------------------------------------------------


def _make_trace(random: Random, folder: Path) -> Attempt:
    path = folder / "run.sltrace"
    if random.random() < 0.02:
        os.mkfifo(path)
    else:
        path.write_bytes(build(random))

    def attempt() -> None:
        trace = open_trace(path)
        asked: list[Callable[[], Any]] = [
            lambda: trace.text,
            lambda: trace.reply(),
            lambda: trace.pictures,
        ]
        asked += [lambda place=place: trace.event(place) for place in range(min(len(trace.entries), 3_000))]
        asked += [lambda entry=entry: trace.reply(entry.block) for entry in trace.entries[:50] if entry[0] == "commit"]
        asked += [lambda: trace.save(folder / "copy.sltrace"), lambda: (trace.notice + trace.failure).encode()]
        _each(asked)
        for token in (*range(60), 10**6, 2**24 + 1):
            trace.piece(token).encode()
        trace.close()

    return attempt


def _each(asked: list[Callable[[], Any]]) -> None:
    """Ask all; a part that is damaged says so, and the next one is asked for all the same."""
    said = ""
    for one in asked:
        try:
            one()
        except SafelightError as error:
            said += str(error)
    assert "\n" not in said


# --- window ----------------------------------------------------------------------------------------------------------


def _make_replay(random: Random, folder: Path) -> Attempt:
    path = folder / "run.sltrace"
    path.write_bytes(build(random))
    chosen = Random(random.random())

    def attempt() -> float:
        from app.inspector.timeline.overview import Overview
        from app.player.player import Player

        held = 0.0

        def timed(work: Callable[[], Any]) -> Any:
            nonlocal held
            begun = time.thread_time()
            done = work()
            held = max(held, time.thread_time() - begun)
            return done

        player = Player()
        overview = Overview(player, player)
        try:
            timed(lambda: player.open(open_trace(path), 0))
            for work in _looks(player, overview, chosen):
                timed(work)
        finally:
            player.open(None)
            player.deleteLater()
        return held

    return attempt


def _looks(player: Any, overview: Any, random: Random) -> Iterator[Callable[[], Any]]:
    """Yields the questions of the views to a player, each in a turn of its own."""
    from app.inspector.story_words import caption
    from app.state.run.answers import answers_of, decision_words
    from app.state.run.cell_history import history_of
    from app.state.run.task_words import task_text

    last = len(player.replay.frames) - 1

    def look(place: int) -> None:
        player.go(place)
        if player.trace.header.decision is not None:
            answers = answers_of(player.trace.header.decision, player.replay.reads(player.place))
            decision_words(answers).encode()
        task_text(player.trace.header).encode()
        snapshot, record = player.snapshot, player.block
        if snapshot is None or record is None or not snapshot.length:
            return
        snapshot.tokens(calm=True)
        snapshot.states(calm=True)
        caption(record, player.frame, player.trace).text.encode()
        position = random.randrange(snapshot.length)
        player.select(position)
        player.next_change(random.choice((1, -1)))
        history = history_of(record, position)
        assert history.lines is not None
        assert len(history.argmax_ranks) == record.steps
        snapshot.cell(position, calm=True)
        for token in snapshot.tokens(calm=True)[:64].tolist():
            player.piece(token).encode("utf-8")

    for place in (0, last, last // 2, *(random.randint(0, max(0, last)) for _ in range(3)), last + 5):
        yield lambda place=place: look(place)
    for _ in range(12):
        yield overview._work
    yield lambda: (player.replay.problem + player.trace.notice + player.trace.failure).encode()


def _prepare() -> None:
    from PySide6.QtCore import QCoreApplication

    global _app
    _app = QCoreApplication.instance() or QCoreApplication([])


_app: Any = None

KINDS = (
    Kind("traces", _make_trace),
    Kind("replays", _make_replay, in_window=True, prepare=_prepare),
)
