"""What the window can do, by name, with its keys: the source of the shortcuts, their sheet and the command palette."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.system.i18n import tr
from app.window.action import Action
from app.window.topbar import CHAT, INSPECTOR, MODELS, SUDOKU

if TYPE_CHECKING:
    from app.state.sudoku.board import Bin
    from app.window.main_window import MainWindow


_PALETTE_KEYS = ("Ctrl+K", "Ctrl+Shift+P")


def deeds(window: MainWindow) -> list[Action]:
    """Every action of the window, by section."""
    return [
        *_conversation(window),
        *_answer(window),
        *_sudoku(window),
        *_view(window),
        *_application(window),
    ]


def _conversation(window: MainWindow) -> list[Action]:
    section, shelf, session = tr("Conversations"), window.shelf, window.session

    def stored() -> str:
        return "" if session.conversation is not None else tr("This conversation is still empty")

    def export(form: str) -> None:
        if session.conversation is not None:
            shelf.export(session.conversation, form)

    def search() -> None:
        window.topbar.sidebar.setChecked(True)
        window.sidebar.focus_search()

    return [
        Action("new", tr("New chat"), section, window.sidebar.new_asked.emit, ("Ctrl+N",)),
        Action("search", tr("Search the conversations"), section, search, ("Ctrl+Shift+F",)),
        Action("export-markdown", tr("Export as Markdown"), section, lambda: export("markdown"), enabled=stored),
        Action("export-html", tr("Export as a web page"), section, lambda: export("html"), enabled=stored),
        Action("export-json", tr("Export as JSON"), section, lambda: export("json"), enabled=stored),
        Action("import", tr("Import a conversation"), section, shelf.bring_in),
    ]


def _answer(window: MainWindow) -> list[Action]:
    section, asking, composer = tr("Asking"), window.asking, window.page.composer

    def can_repeat() -> str:
        if not window.session.chat.turns:
            return tr("There is no answer yet")
        return window.reason_to_wait()

    def can_inspect() -> str:
        turns = window.session.chat.turns
        return "" if turns and turns[-1].answer.has_trace else tr("There is no answer yet, or its run was not kept")

    def runs() -> str:
        is_running = window.session.active is not None or window.is_forking or window.is_solving
        return "" if is_running else tr("No answer is developing")

    return [
        Action("write", tr("Write a prompt"), section, composer.edit.setFocus, ("Ctrl+L",)),
        Action("attach", tr("Attach text files"), section, composer.choose_files, ("Ctrl+Shift+A",)),
        Action("stop", tr("Stop the answer"), section, window.stop, ("Escape",), runs),
        Action("again", tr("Regenerate the last answer"), section, asking.again_last, ("Ctrl+R",), can_repeat),
        Action("inspect", tr("Inspect the last answer"), section, asking.inspect_last, ("Ctrl+I",), can_inspect),
        Action("open-run", tr("Open a recorded run"), section, lambda: window.inspecting.ask_file()),
        Action("presets", tr("Edit the presets"), section, asking.edit_presets, ("Ctrl+E",)),
    ]


def _sudoku(window: MainWindow) -> list[Action]:
    section = tr("Sudoku")

    def solve() -> None:
        window.solving.show("one")
        window.solving.solve()

    def both() -> None:
        window.solving.show("beside")
        window.solving.solve_both()

    def fresh(bin: Bin) -> None:
        window.solving.show("one")
        window.solving.new_puzzle(bin)

    def free() -> str:
        return window.reason_to_wait() if window.is_solving else ""

    return [
        Action("sudoku-solve", tr("Solve the puzzle"), section, solve, ("F5",), free),
        Action("sudoku-easy", tr("New easy puzzle"), section, lambda: fresh("easy"), ("Alt+1",), free),
        Action("sudoku-medium", tr("New medium puzzle"), section, lambda: fresh("medium"), ("Alt+2",), free),
        Action("sudoku-hard", tr("New hard puzzle"), section, lambda: fresh("hard"), ("Alt+3",), free),
        Action("sudoku-clamp", tr("Clamp the givens, or no longer"), section, lambda: window.solving.toggle_clamp()),
        Action("sudoku-beside", tr("Two models side by side"), section, lambda: window.solving.show("beside")),
        Action("sudoku-both", tr("Solve the puzzle side by side"), section, both, ("Shift+F5",), free),
        Action("sudoku-scores", tr("Sudoku scoreboard"), section, lambda: window.solving.show("scores")),
    ]


def _view(window: MainWindow) -> list[Action]:
    section, topbar = tr("View"), window.topbar
    return [
        Action("chat", tr("Go to the chat"), section, lambda: window.show_page(CHAT), ("Ctrl+1",)),
        Action("inspector", tr("Go to the inspector"), section, lambda: window.show_page(INSPECTOR), ("Ctrl+2",)),
        Action("sudoku", tr("Go to Sudoku"), section, lambda: window.show_page(SUDOKU), ("Ctrl+3",)),
        Action("models", tr("Go to the models"), section, lambda: window.show_page(MODELS), ("Ctrl+4",)),
        Action("sidebar", tr("Show or hide the conversations"), section, topbar.sidebar.toggle, ("Ctrl+B",)),
        Action("sampler", tr("Show or hide the sampler's settings"), section, topbar.strip.toggle, ("Ctrl+Shift+S",)),
        Action("theme", tr("Take the next theme"), section, window.looks.choose_next, ("Ctrl+T",)),
        Action("larger", tr("Larger text"), section, lambda: window.step_text(10), ("Ctrl++", "Ctrl+=")),
        Action("smaller", tr("Smaller text"), section, lambda: window.step_text(-10), ("Ctrl+-",)),
    ]


def _application(window: MainWindow) -> list[Action]:
    section = tr("Application")

    def loaded() -> str:
        return "" if window.model is not None else tr("No model is loaded")

    def offline() -> None:
        window.set_offline(not window.preferences.offline)

    return [
        Action("model", tr("Choose a model"), section, window.open_chooser, ("Ctrl+M",)),
        Action("folder", tr("Open a model folder"), section, window.open_folder, ("Ctrl+O",)),
        Action("unload", tr("Unload the model"), section, window.unload, enabled=loaded),
        Action("offline", tr("Switch offline on or off"), section, offline),
        Action("settings", tr("Open the settings"), section, window.open_settings, ("Ctrl+,",)),
        Action("palette", tr("Find an action"), section, window.open_palette, _PALETTE_KEYS, in_palette=False),
        Action("shortcuts", tr("Show the shortcuts"), section, window.open_shortcuts, ("?", "F1")),
        Action("diagnostics", tr("Copy diagnostics"), section, lambda: window.asking.act("copy_diagnostics")),
        Action("quit", tr("Quit"), section, window.close, ("Ctrl+Q",)),
    ]
