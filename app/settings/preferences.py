"""The application's preferences, declared once as data; the dialog, storage and checks are derived. Without Qt.

A name is an attribute of ``Preferences`` or, for the display of the canvas, of ``SettingsValues``.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.settings.spec import (
    REDUCED_MOTION,
    REDUCED_MOTION_EXPLANATION,
    VIEW,
    Choice,
)
from engine.config import MOST_THREADS
from engine.decoders import Setting


@dataclass
class Preferences:
    """The user's preferences. An empty ``data_folder`` is the platform's default."""

    theme: str = "system"
    text_percent: int = 100
    data_folder: str = ""
    offline: bool = False
    threads: int = 0
    server: bool = False
    server_port: int = 8317
    server_open: bool = False


@dataclass(frozen=True)
class Switch:
    """A preference that is on or off."""

    name: str
    label: str
    explanation: str


@dataclass(frozen=True)
class Folder:
    """A folder; empty for the platform's default."""

    name: str
    label: str
    explanation: str


@dataclass(frozen=True)
class Act:
    """A button that runs an action; stores nothing."""

    name: str
    label: str
    explanation: str
    button: str


Preference = Choice | Setting | Switch | Folder | Act


@dataclass(frozen=True)
class PreferenceSection:
    """Preferences that are shown together."""

    title: str
    items: tuple[Preference, ...]


THEME = Choice(
    "theme",
    "Theme",
    "Darkroom is dark, Paper is light; System follows the desktop.",
    (("system", "System"), ("darkroom", "Darkroom"), ("paper", "Paper")),
)
TEXT_PERCENT = Setting("Text size", "%", "The size of all text, on the canvas too.", 80, 200, 10, name="text_percent")
DATA_FOLDER = Folder(
    "data_folder",
    "Data folder",
    "Where conversations, recorded runs and converted models are kept. Takes effect at the next start. Files are not "
    "moved: copy the contents of the old folder yourself.",
)
OFFLINE = Switch(
    "offline",
    "Offline",
    "Safelight does not use the network. Downloads wait until this is off; everything else works.",
)
THREADS = Setting(
    "CPU threads",
    "",
    "0 uses one thread for a small model and all for a large one. Takes effect when a model is loaded. Not used on a "
    "graphics card.",
    0,
    MOST_THREADS,
    1,
    name="threads",
)
OPEN_LOGS = Act(
    "open_logs",
    "Log",
    "Errors are written to a file on this computer. Prompts and answers are not.",
    "Open the log folder",
)
SHOW_SERVER = Act(
    "show_server",
    "Local server",
    "Other programs can use the loaded model through three APIs. Off until you switch it on.",
    "Open the server",
)
SHOW_SHORTCUTS = Act(
    "show_shortcuts", "Keyboard", "All shortcuts. Ctrl+K finds everything else by name.", "Show the shortcuts"
)

SECTIONS = (
    PreferenceSection(
        "Appearance",
        (THEME, TEXT_PERCENT, Switch("reduced_motion", REDUCED_MOTION, REDUCED_MOTION_EXPLANATION)),
    ),
    PreferenceSection("Canvas", (VIEW,)),
    PreferenceSection("Engine", (THREADS, SHOW_SERVER)),
    PreferenceSection("Storage and privacy", (DATA_FOLDER, OFFLINE)),
    PreferenceSection("Help", (SHOW_SHORTCUTS, OPEN_LOGS)),
)

SERVER_SWITCH = Switch(
    "server", "Serve the loaded model", "Starts with Safelight from now on. Every request needs the key."
)
SERVER_PORT = Setting(
    "Port",
    "",
    "Part of the address. 0 uses any free port, which can change at each start.",
    0,
    65_535,
    1,
    name="server_port",
)
SERVER_OPEN = Switch(
    "server_open",
    "Reachable from other machines",
    "Off: only programs on this computer reach the server.",
)
ELSEWHERE = (SERVER_SWITCH, SERVER_PORT, SERVER_OPEN)
"""Preferences with controls on a page instead of in the dialog."""
