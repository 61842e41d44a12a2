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

    def repeats() -> str:
        return context.reason_to_wait() if session.chat.turns else tr("There is no answer yet")

    def inspects() -> str:
        turns = session.chat.turns
        return "" if turns and turns[-1].answer.has_trace else tr("There is no answer yet, or its run was not kept")

    def runs() -> str:
        waits = page.made is not None and page.made.is_waiting
        return "" if waits or context.is_busy else tr("There is nothing to stop")

    def attach() -> None:
        page().page.composer.choose_files()

    in_composer = page_keys(
        CHAT,
        tr("Message box"),
        lambda: page().enter(),
        (tr("Send"), ("Return",)),
        (tr("New line"), ("Shift+Return",)),
        (tr("Earlier and later prompts"), ("Up", "Down")),
    )
    return [
        *in_composer,
        Action("write", tr("Write a prompt"), section, lambda: page().enter(), ("Ctrl+L",)),
        Action("attach", tr("Attach files"), section, attach, ("Ctrl+Shift+A",)),
        Action(
            "stop", tr("Stop the answer, or skip it"), section, lambda: page().stop(), ("Escape",), runs, is_quiet=True
        ),
        Action("again", tr("Regenerate the last answer"), section, lambda: page().again_last(), ("Ctrl+R",), repeats),
        Action("inspect", tr("Inspect the last answer"), section, lambda: page().inspect_last(), ("Ctrl+I",), inspects),
        Action("presets", tr("Edit the presets"), section, lambda: page().presets.edit_presets(), ("Ctrl+E",)),
    ]
