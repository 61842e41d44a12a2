"""Builds homes with hostile data in them: settings, a data folder, logs. Each has conversations that stay untouched."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

UNTOUCHED = ("The first one", "The second one", "The third one")
TARGET = "The fourth one"  # what the damage of a library falls on; it is on show at the start
ANSWER = "an answer to be found again"
DEEP = 100_000
TITLE, TEXT = b"mark-of-the-title", b"mark-of-the-text"  # found again in the file's bytes


@dataclass
class Home:
    """Where the app looks for a user's files, all below one folder."""

    root: Path
    held: list[sqlite3.Connection] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.root / "data" / "Safelight"

    @property
    def settings(self) -> Path:
        return self.root / "config" / "Safelight" / "Safelight.conf"

    @property
    def logs(self) -> Path:
        return self.root / "state" / "Safelight" / "log"

    @property
    def library(self) -> Path:
        return self.data / "library.sqlite"

    def environment(self) -> dict[str, str]:
        """What leads an app of ours here."""
        places = {"config": "XDG_CONFIG_HOME", "data": "XDG_DATA_HOME", "state": "XDG_STATE_HOME"}
        made = {variable: str(self.root / name) for name, variable in places.items()}
        return made | {"HOME": str(self.root / "home"), "XDG_CACHE_HOME": str(self.root / "cache")}

    def set(self, text: str) -> None:
        """Write the settings."""
        self.settings.write_text(text, encoding="utf-8")

    def model(self, name: str = "A model") -> Path:
        """An empty folder of a model."""
        folder = self.data / "models" / name
        folder.mkdir(parents=True)
        return folder

    def change(self, *statements: str) -> None:
        """Change the library behind its back."""
        connection = sqlite3.connect(self.library, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def target(self, **columns: object) -> None:
        """Set columns of the answer in the target."""
        connection = sqlite3.connect(self.library, isolation_level=None)
        for name, value in columns.items():
            connection.execute(
                f"UPDATE messages SET {name} = ? WHERE conversation = 4 AND parent IS NOT NULL", (value,)
            )
        connection.close()

    def patch(self, change: Callable[[bytearray], object]) -> None:
        """Change the library's bytes."""
        raw = bytearray(self.library.read_bytes())
        change(raw)
        self.library.write_bytes(raw)

    def release(self) -> None:
        """Let go of what is held."""
        for connection in self.held:
            connection.close()


def build(home: Home, *names: str) -> set[str]:
    """Build a home with all that these names stand for; returns the titles of the conversations that must be listed."""
    from app.library import Library, NewMessage

    for folder in (home.data, home.settings.parent, home.logs, home.root / "home"):
        folder.mkdir(parents=True)
    clock = iter(range(1_700_000_000, 1_800_000_000))
    library = Library.open(home.data, lambda: float(next(clock)))
    for title in (*UNTOUCHED, TARGET):
        id = library.create(title=TITLE.decode() if title == TARGET else title)
        parent = None
        for turn in range(10):
            asked = library.add(id, NewMessage(parent, "user", f"Question {turn}"))
            text = TEXT.decode() if title == TARGET else f"{turn}: {ANSWER}. " * 20
            parent = library.add(id, NewMessage(asked, "assistant", text, model="a model"))
    library.close()
    home.set("[window]\nconversation=4\n")
    for name in names:
        HOMES[name](home)
    return set() if WITHOUT_LIBRARY.intersection(names) else set(UNTOUCHED)


# --- models ------------------------------------------------------------------------------------------------------

RECORD = {"repo": "some/model", "revision": "a" * 40}
FILE = {"name": "config.json", "bytes": 2, "hash": "b" * 40}


def _record_of(home: Home) -> Path:
    return home.model("other").parent / "some--model.download.json"


def _record(home: Home, **changes: object) -> Path:
    path = _record_of(home)
    path.write_text(json.dumps(RECORD | {"files": [FILE | changes]}))
    return path


def _deep(path: Path, name: str = "deep") -> None:
    path.write_text(f'{{"{name}": ' + "[" * DEEP + "]" * DEEP + "}")


def _numbers_in_record(home: Home, number: str) -> None:
    path = _record(home, bytes=7)
    path.write_text(path.read_text().replace("7", number))


def _planted(home: Home) -> None:
    (home.data / "treasure").write_text("do not touch")
    _record(home, name="../../treasure", bytes=3)
    (home.data / "models" / "link.partial").symlink_to(home.root)


def _crowd(home: Home) -> None:
    for number in range(3_000):
        (home.model(f"model-{number}") / "config.json").write_text("{}")


def _odd_names(home: Home) -> None:
    for name in (b"\xff\xfe", b"a\nb\x1b[2J", b"x" * 250, "\u202egnp.exe".encode(), b"~root", b"-rf"):
        folder = os.fsencode(home.data / "models") + b"/" + name
        os.makedirs(folder)
        with open(folder + b"/config.json", "w") as file:
            file.write("{}")


def _sparse(path: Path, size: int = 2**40) -> None:
    path.touch()
    os.truncate(path, size)


# --- settings ----------------------------------------------------------------------------------------------------


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _senseless(home: Home) -> None:
    keys = {
        "window": ("theme", "text_percent", "sidebar_open", "settings_open", "conversation"),
        "sampler": ("entropy_bound", "t_max", "seed", "max_new_tokens"),
        "canvas": ("calm", "layer", "pace"),
        "models": ("folders", "token_kept"),
    }
    values = ("nan", "1e999", "9" * 400, "-1", "text", "a, b, c", "@Invalid()", "é" * 5_000)
    lines: list[str] = []
    for section, names in keys.items():
        lines.append(f"[{section}]")
        lines += [f"{name}={values[place % len(values)]}" for place, name in enumerate(names)]
    home.set("\n".join([*lines, "[app]", "language=../../../../tmp/evil", "offline=maybe"]))


def _data_folder(home: Home, folder: str) -> None:
    home.set(f"[app]\ndata_folder={folder}\n")


def _data_folder_is_file(home: Home) -> None:
    (home.root / "file").touch()
    _data_folder(home, str(home.root / "file"))


def _data_folder_loops(home: Home) -> None:
    (home.root / "loop").symlink_to("loop")
    _data_folder(home, str(home.root / "loop"))


# --- presets, logs, traces ---------------------------------------------------------------------------------------


def _many_presets(home: Home) -> None:
    entry = {"id": "1", "name": "n" * 3_000, "overrides": {"t_max": "x", "seed": 10**30}, "system_prompt": 7}
    presets = [entry | {"id": str(number)} for number in range(600)]
    (home.data / "presets.json").write_text(json.dumps({"version": 1, "presets": presets}))


def _strange_logs(home: Home) -> None:
    _pipe(home.logs / "safelight.log")
    (home.logs / "safelight.log.1").mkdir()
    (home.logs / "safelight.log.2").symlink_to(home.library)


def _traces(home: Home) -> None:
    traces = home.data / "traces"
    traces.mkdir()
    _pipe(traces / "a.sltrace")
    _sparse(traces / "b.sltrace")
    (traces / "c.sltrace").symlink_to("/dev/zero")
    (traces / "d.sltrace").mkdir()
    for number in range(2_000):
        (traces / f"{number}.sltrace").write_bytes(b"\x93garbage" * 10)


def _in_the_way(home: Home) -> None:
    for name in ("models", "traces", "presets.json.lock"):
        (home.data / name).symlink_to(name)


# --- the library -------------------------------------------------------------------------------------------------


def _flip(home: Home, mark: bytes) -> None:
    def change(raw: bytearray) -> None:
        place = raw.index(mark)
        while place >= 0:  # the index of words has it, too
            raw[place + 2] ^= 0x80
            place = raw.find(mark, place + 1)

    home.patch(change)


def _schema_bytes(home: Home) -> None:
    def change(raw: bytearray) -> None:
        place = raw.index(b"-- when it was deleted")
        raw[place + 4] ^= 0x80

    home.patch(change)


def _cut(home: Home) -> None:
    home.target(content="a long answer, which takes the last pages of the file\n" * 400)
    home.patch(lambda raw: raw.__delitem__(slice(-4096, None)))


def _header(home: Home, at: int, value: bytes) -> None:
    home.patch(lambda raw: raw.__setitem__(slice(at, at + len(value)), value))


def _lock(home: Home) -> None:
    connection = sqlite3.connect(home.library, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    home.held.append(connection)


def _wrong_types(home: Home) -> None:
    home.change(
        "UPDATE conversations SET deleted = 'some day', pinned = 'yes', created = x'00ff', updated = 'text' "
        "WHERE id = 4",
        "UPDATE messages SET seed = 'x', child_shown = 'y', created = x'ff' WHERE conversation = 4",
    )


def _hostile_answer(home: Home) -> None:
    home.target(
        settings="[" * DEEP, figures='{"total_steps": 1e999, "seconds": ' + "9" * 400 + "}", attachments='{"a": [1]}'
    )


def _other_library(home: Home, make: Callable[[Path], object]) -> None:
    for suffix in ("", "-wal", "-shm"):
        home.library.with_name(home.library.name + suffix).unlink(missing_ok=True)
    make(home.library)


def _long_conversation(home: Home) -> None:
    insert = (
        "INSERT INTO messages (id, conversation, parent, created, role, status, content) "
        "SELECT value + 999, 4, nullif(value + 998, 999), 1, iif(value % 2, 'user', 'assistant'), 'done', 'text' "
        "FROM generate_series(1, 20000)"
    )
    series = (
        "WITH RECURSIVE generate_series(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM generate_series "
        "WHERE value < 20000) "
    )
    connection = sqlite3.connect(home.library, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(series + insert.replace("generate_series(1, 20000)", "generate_series"))
    connection.execute("UPDATE conversations SET child_shown = 1000 WHERE id = 4")
    connection.close()


def _open_rights(home: Home) -> None:
    (home.data / "presets.json").write_text('{"version": 1, "presets": []}')
    for path in (home.data, home.library, home.data / "presets.json", home.settings):
        path.chmod(0o777)


HOMES: dict[str, Callable[[Home], object]] = {
    # models
    "config-deep": lambda home: _deep(home.model() / "config.json"),
    "store-manifest-deep": lambda home: _deep(home.model() / "safelight-store.json"),
    "unfinished-store-deep": lambda home: _deep(home.model() / "safelight-store.partial.json", "source"),
    "record-deep": lambda home: _deep(_record_of(home)),
    "record-1e999": lambda home: _numbers_in_record(home, "1e999"),
    "record-5000-digits": lambda home: _numbers_in_record(home, "9" * 5_000),
    "record-names-others-files": _planted,
    "config-pipe": lambda home: _pipe(home.model() / "config.json"),
    "record-pipe": lambda home: _pipe(_record_of(home)),
    "config-enormous": lambda home: _sparse(home.model() / "config.json"),
    "models-by-the-thousand": _crowd,
    "model-links-to-the-disk": lambda home: home.model().rmdir() or (home.data / "models" / "A model").symlink_to("/"),
    "models-odd-names": _odd_names,
    "links-in-the-way": _in_the_way,
    # presets, logs, traces
    "presets-damaged": lambda home: (home.data / "presets.json").write_bytes(b'{"version": 1, "presets": [\xff'),
    "presets-pipe": lambda home: _pipe(home.data / "presets.json"),
    "presets-enormous": lambda home: _sparse(home.data / "presets.json"),
    "presets-deep": lambda home: _deep(home.data / "presets.json", "presets"),
    "presets-many": _many_presets,
    "logs-strange": _strange_logs,
    "traces-strange": _traces,
    # settings
    "settings-garbage": lambda home: home.settings.write_bytes(b"[window\n" + bytes(range(256)) * 400),
    "settings-senseless": _senseless,
    "data-folder-nul": lambda home: _data_folder(home, f"{home.data}\\0/x"),
    "data-folder-file": _data_folder_is_file,
    "data-folder-loop": _data_folder_loops,
    "data-folder-5000-characters": lambda home: _data_folder(home, "/x" * 2_500),
    # the library
    "title-not-utf8": lambda home: _flip(home, TITLE),
    "message-not-utf8": lambda home: _flip(home, TEXT),
    "schema-not-utf8": _schema_bytes,
    "library-cut": _cut,
    "library-header": lambda home: _header(home, 0, b"SQLite fOrmat"),
    "library-page-size": lambda home: _header(home, 16, b"\x00\x03"),
    "library-locked": _lock,
    "library-wrong-types": _wrong_types,
    "library-pipe": lambda home: _other_library(home, _pipe),
    "answer-hostile": _hostile_answer,
    "last-formula-deep": lambda home: home.target(content="$$" + "{" * 19 + "x" + "}" * 19 + "$$"),
    "last-answer-enormous": lambda home: home.target(content="a line of a very long answer\n" * 100_000),
    "last-conversation-long": _long_conversation,
    "rights-open": _open_rights,
}
"""What each home has that is hostile."""

WITHOUT_LIBRARY = {
    "data-folder-file", "data-folder-loop", "data-folder-5000-characters", "library-pipe", "schema-not-utf8",
    "library-cut", "library-header", "library-page-size", "library-wrong-types",
}  # fmt: skip
"""No conversation can be there."""

SPOKEN = {
    *(name for name in HOMES if name.startswith(("presets-", "data-folder-"))),
    "settings-garbage",
    "schema-not-utf8", "library-cut", "library-header", "library-page-size", "library-wrong-types",
    "library-locked", "library-pipe",
}  # fmt: skip
"""Where something is set aside or cannot be used, and is to be said."""
