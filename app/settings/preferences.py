"""The application's preferences, each declared once; the dialog, storage and checks are derived. Without Qt.

A name is an attribute of ``Preferences`` or, for the display of the canvas, of ``SettingsValues``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from app.settings.values import REDUCED_MOTION, VIEW
from engine.config import MAX_THREADS
from engine.settings import Choice, Declaration, Setting, Switch, declared


@dataclass(frozen=True)
class Key(Declaration):
    """The key of a preference in the stored settings."""

    key: str


@dataclass(frozen=True)
class Folder(Declaration):
    """A folder; empty for the platform's default."""

    label: str
    explanation: str


@dataclass(frozen=True)
class Act(Declaration):
    """A button that runs an action; stores nothing."""

    label: str
    explanation: str
    button: str


@dataclass
class Preferences:
    """The user's preferences. An empty ``data_folder`` is the platform's default."""

    theme: Annotated[
        str,
        Key("window/theme"),
        Choice(
            "Theme",
            "Darkroom is dark, Paper is light; System follows the desktop.",
            (("system", "System"), ("darkroom", "Darkroom"), ("paper", "Paper")),
        ),
    ] = "system"
    text_percent: Annotated[
        int,
        Key("window/text_percent"),
        Setting("Text size", "%", "The size of all text, on the canvas too.", 80, 200, 10),
    ] = 100
    data_folder: Annotated[
        str,
        Key("app/data_folder"),
        Folder(
            "Data folder",
            "Where conversations, recorded runs and converted models are kept. Takes effect at the next start. Files "
            "are not moved: copy the contents of the old folder yourself.",
        ),
    ] = ""
    offline: Annotated[
        bool,
        Key("app/offline"),
        Switch(
            "Offline",
            "Safelight does not use the network. Downloads wait until this is off; everything else works.",
        ),
    ] = False
    threads: Annotated[
        int,
        Key("engine/threads"),
        Setting(
            "CPU threads",
            "",
            "0 uses one thread for a small model and all for a large one. Takes effect when a model is loaded. Not "
            "used on a graphics card.",
            0,
            MAX_THREADS,
            1,
        ),
    ] = 0
    server: Annotated[
        bool,
        Key("server/on"),
        Switch("Serve the loaded model", "Starts with Safelight from now on. Every request needs the key."),
    ] = False
    server_port: Annotated[
        int,
        Key("server/port"),
        Setting("Port", "", "Part of the address. 0 uses any free port, which can change at each start.", 0, 65_535, 1),
    ] = 8317
    server_open: Annotated[
        bool,
        Key("server/open"),
        Switch("Reachable from other machines", "Off: only programs on this computer reach the server."),
    ] = False


KEYS = {name: one.key for name, one in declared(Preferences, Key).items()}
NUMBERS, SWITCHES = declared(Preferences, Setting), declared(Preferences, Switch)
ITEMS: dict[str, Choice | Setting | Switch | Folder] = {
    **declared(Preferences, Choice),
    **NUMBERS,
    **SWITCHES,
    **declared(Preferences, Folder),
}
"""The declarations of all preferences, by name; those of the server have controls on its page, not in the dialog."""

Preference = Choice | Setting | Switch | Folder | Act


@dataclass(frozen=True)
class PreferenceSection:
    """Preferences that are shown together."""

    title: str
    items: tuple[Preference, ...]


SECTIONS = (
    PreferenceSection(
        "Appearance",
        (
            ITEMS["theme"],
            ITEMS["text_percent"],
            REDUCED_MOTION,
        ),
    ),
    PreferenceSection("Canvas", (VIEW,)),
    PreferenceSection(
        "Engine",
        (
            ITEMS["threads"],
            Act(
                "Local server",
                "Other programs can use the loaded model through three APIs. Off until you switch it on.",
                "Open the server",
                name="show_server",
            ),
        ),
    ),
    PreferenceSection("Storage and privacy", (ITEMS["data_folder"], ITEMS["offline"])),
    PreferenceSection(
        "Help",
        (
            Act(
                "Keyboard",
                "All shortcuts. Ctrl+K finds everything else by name.",
                "Show the shortcuts",
                name="show_shortcuts",
            ),
            Act(
                "Log",
                "Errors are written to a file on this computer. Prompts and answers are not.",
                "Open the log folder",
                name="open_logs",
            ),
        ),
    ),
)
