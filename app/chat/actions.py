"""The actions of the chat page: their names, keys and conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.context import CHAT, AppContext, Lazy
from app.design.action import Action, page_keys
from app.system.i18n import tr

if TYPE_CHECKING:
    from app.chat.controller import ChatController


def actions(context: AppContext, page: Lazy[ChatController]) -> list[Action]:
    """Returns the actions for sending prompts and for the answers of the shown conversation."""
    section, session = tr("Asking"), context.session

    def has_turns() -> str:
        return "" if session.chat.turns else tr("There is no answer yet")

    def repeats() -> str:
        return has_turns() or context.reason_to_wait()

    def inspects() -> str:
        turns = session.chat.turns
        return "" if turns and turns[-1].answer.has_trace else tr("There is no answer yet, or its run was not kept")

    def runs() -> str:
        waits = page.made is not None and page.made.sending.is_waiting
        return "" if waits or context.is_busy else tr("There is nothing to stop")

    def changes() -> str:
        turns = session.chat.turns
        if not turns or turns[-1].answer.is_active or not turns[-1].answer.text.strip():
            return tr("There is no answer yet")
        can = page().commands.can_change(turns[-1])
        return "" if can else tr("Only answers that were written by block diffusion are changed in part")

    def revise() -> None:
        view = page().page.view_of(session.chat.turns[-1])
        if view is not None:
            view.answer.changing.open_panel()

    def inspect() -> None:
        turn = session.chat.turns[-1]
        view = page().page.view_of(turn)
        page().commands.inspect(turn.answer, -1 if view is None else view.answer.replay.place)

    in_composer = page_keys(
        CHAT,
        tr("Message box"),
        lambda: page().enter(),
        (tr("Send"), ("Return",)),
        (tr("New line"), ("Shift+Return",)),
        (tr("Earlier and later prompts"), ("Up", "Down")),
    )
    in_answer = page_keys(
        CHAT,
        tr("Answer, or an empty message box"),
        lambda: page().enter(),
        (tr("Earlier and later versions"), ("Left", "Right")),
        (tr("The version before"), ("Ctrl+Z",)),
        (tr("Select a part; Enter changes it"), ("Shift+Right", "Ctrl+Shift+Right")),
    )
    return [
        *in_composer,
        *in_answer,
        Action(
            "find", tr("Find in this conversation"), section, lambda: page().page.open_find(), ("Ctrl+F",), has_turns
        ),
        Action(
            "turn-before", tr("The prompt before"), section, lambda: page().page.step_turn(-1), ("Alt+Up",), has_turns
        ),
        Action(
            "turn-after", tr("The next prompt"), section, lambda: page().page.step_turn(1), ("Alt+Down",), has_turns
        ),
        Action("write", tr("Write a prompt"), section, lambda: page().enter(), ("Ctrl+L",)),
        Action(
            "gap",
            tr("Insert a gap to be filled in"),
            section,
            lambda: page().page.composer.edit.insert_gap(),
            ("Ctrl+G",),
        ),
        Action("attach", tr("Attach files"), section, lambda: page().page.composer.choose_files(), ("Ctrl+Shift+A",)),
        Action(
            "stop", tr("Stop the answer, or skip it"), section, lambda: page().stop(), ("Escape",), runs, is_quiet=True
        ),
        Action(
            "again",
            tr("Regenerate the last answer"),
            section,
            lambda: page().commands.again(session.chat.turns[-1]),
            ("Ctrl+R",),
            repeats,
        ),
        Action("revise", tr("Revise the last answer, or a part"), section, revise, ("Ctrl+Shift+R",), changes),
        Action(
            "revise-draft",
            tr("Revise what is in the message box"),
            section,
            lambda: page().sending.revise(),
            ("Ctrl+Shift+Return",),
        ),
        Action("inspect", tr("Inspect the last answer"), section, inspect, ("Ctrl+I",), inspects),
        Action("presets", tr("Edit the presets"), section, lambda: page().presets.edit_presets(), ("Ctrl+E",)),
    ]
