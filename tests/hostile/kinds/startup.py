"""What the window reads before it is there: presets, and settings by QSettings and by our own readers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

from app.presets.preset import Preset, problem
from app.presets.store import FILE, PresetStore
from app.settings import store
from app.settings.file import open_settings
from app.settings.spec import SAMPLER
from app.system.folders import folders
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

# --- presets -----------------------------------------------------------------------------------------------------


def _number(random: Random, low: float, high: float) -> object:
    return random.choice((low, high, (low + high) / 2, mutate.value(random)))


def _entry(random: Random) -> dict[str, object]:
    overrides = {each.name: _number(random, each.low, each.high) for each in SAMPLER if random.random() < 0.4}
    return {
        "id": f"{random.randrange(8)}",
        "name": random.choice((f"Preset {random.randrange(5)}", *mutate.TEXTS)),
        "system_prompt": random.choice(("Be brief.", "x" * 250_000, *mutate.TEXTS)),
        "overrides": overrides,
        "think": random.choice((True, False, 1)),
    }


def _strange_file(random: Random, path: Path) -> bool:
    """Put something in the way that is no file, or is no longer one to be read; False for most cases, left alone."""
    match random.randrange(40):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(random.choice(("/dev/zero", path.name, "/proc/self/mem", "missing")))
        case 3:
            path.touch()
            os.truncate(path, random.choice((2**22, 2**40)))
        case _:
            return False
    return True


def _make_presets(random: Random, folder: Path) -> Attempt:
    path = folder / FILE
    entries = [_entry(random) for _ in range(random.choice((1, 2, 5, 600)))]
    raw = {"version": random.choice((1, 1, 1, 1, 2, "x")), "presets": entries}
    if not _strange_file(random, path):
        match random.randrange(4):
            case 0:
                path.write_bytes(mutate.dumped(random, raw))
            case 1:
                path.write_bytes(mutate.dumped(random, mutate.tree(random, raw)))
            case _:
                path.write_text(json.dumps(raw), encoding="utf-8")
    if random.random() < 0.05:
        (folder / f"{FILE}.lock").symlink_to(random.choice(("/dev/null", "missing", f"{FILE}.lock")))
    own = [Preset(f"{random.randrange(8)}", str(mutate.value(random))[:300], str(mutate.value(random))[:3_000])]

    def attempt() -> None:
        first, second = PresetStore(folder), PresetStore(folder)
        for preset in first.presets:
            problem(preset, ())
            second.find(preset.id)
        first.put(own[0])
        second.put(second.presets[0].replace(id="another"))
        third = PresetStore(folder)
        assert third.problem == ""
        assert set(first.own) <= set(third.own) | set(own)

    return attempt


# --- settings ----------------------------------------------------------------------------------------------------

KEYS = {
    "window": ("theme", "text_percent", "sidebar_open", "settings_open", "conversation", "geometry", "place", "page"),
    "model": ("last", "adapter", "loading"),
    "sampler": (*(setting.name for setting in SAMPLER), "seed"),
    "canvas": ("calm", "layer", "pace", "reduced_motion"),
    "app": ("language", "data_folder", "offline"),
    "models": ("folders", "token_kept"),
}
VALUES = (
    "true", "0", "1", "-1", "0.5", "7", "100", "nan", "inf", "1e999", "9" * 5_000, "paper", "raw", "entropy",
    "@Invalid()", "/tmp/x", "/" + "x" * 5_000, "~nosuchuser/x", "/a\\0b", "../../evil", "a, b, c", '"a, b"', "a\\", '"',
    "é\u202e", "\x00", "@ByteArray(\\0\\x1\\xd9\\xd0\\xcb)", "@Rect(1 2 3 4)", "@Size(9999999999 -1)",
    "@Point(x y)", "@@Variant(", "@String(x)", "x" * 100_000, ", " * 30_000,
)  # fmt: skip


def _ini(random: Random) -> bytes:
    lines: list[str] = []
    for section, names in KEYS.items():
        lines.append(f"[{section}]" if random.random() < 0.95 else random.choice(("[", "[%General", "[a\\b]", "[]")))
        for name in names:
            value = random.choice(VALUES[: random.choice((14, len(VALUES)))])
            lines.append(f"{name}={value}")
    text = random.choice(("\n", "\n", "\r\n")).join(lines).encode("utf-8", "surrogatepass")
    match random.randrange(8):
        case 0:
            return mutate.damaged(random, text)
        case 1:
            return random.randbytes(random.choice((10, 5_000)))
        case _:
            return text


def _make_settings(random: Random, folder: Path) -> Attempt:
    path = folder / "config" / "Safelight.conf"
    path.parent.mkdir()
    path.write_bytes(_ini(random))

    def attempt() -> None:
        settings, said = open_settings(path)
        preferences, values = store.read_preferences(settings), store.read_values(settings, False)
        store.unread(settings)
        store.read_conversation(settings)
        for read in (store.read_window, store.read_page, store.read_model, store.read_loading):
            read(settings)
        store.read_open(settings, "sidebar", default=True)
        str(folders(preferences.data_folder).models)
        store.write_values(settings, values, False, keep_seed=False)
        settings.sync()
        again, said_again = open_settings(path)
        if "cannot be used" not in said:
            assert store.read_values(again, False) == values
            assert not said_again, said_again

    return attempt


def _prepare() -> None:
    """Qt is loaded, and says nothing of what it reads."""
    from PySide6.QtCore import qInstallMessageHandler

    qInstallMessageHandler(lambda *_: None)


KINDS = (
    Kind("presets", _make_presets, in_window=True),
    Kind("settings", _make_settings, in_window=True, prepare=_prepare),
)
