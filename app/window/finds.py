"""The palette's entries besides the actions: conversations, models and settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from app.context import CHAT, AppContext
from app.design.action import Action
from app.settings.preferences import SECTIONS
from app.settings.spec import SAMPLER, SEED
from app.system.i18n import tr
from app.window.sidebar.rows import shown_title
from engine import EMBEDDED, SafelightError

MOST_CHATS = 500  # of the latest conversations


def finds(
    context: AppContext, open_setting: Callable[[str], object], open_sampler: Callable[[str], object]
) -> list[Action]:
    """Returns an action for each entry; the two callables take the name of a setting."""
    shown = context.values.present_decoding.settings
    return [*_chats(context), *_models(context), *_settings(open_setting, open_sampler, shown)]


def _chats(context: AppContext) -> Iterator[Action]:
    try:
        found = context.library.summaries("")
    except SafelightError:
        return  # the conversation list shows the error
    for summary in found[:MOST_CHATS]:

        def go(conversation: int = summary.id) -> None:
            context.session.open(conversation)
            context.show_page(CHAT)

        yield Action(f"chat {summary.id}", shown_title(summary), tr("Chat"), go)


def _models(context: AppContext) -> Iterator[Action]:
    known = {**{model.id: model.title for model in EMBEDDED}, **dict(context.models)}
    for path_or_id, title in known.items():
        yield Action(f"model {path_or_id}", title, tr("Load the model"), functools.partial(context.load, path_or_id))


def _settings(
    open_setting: Callable[[str], object], open_sampler: Callable[[str], object], shown: frozenset[str]
) -> Iterator[Action]:
    for section in SECTIONS:
        for item in section.items:
            go = functools.partial(open_setting, item.name)
            yield Action(
                f"setting {item.name}", tr(item.label), tr("Settings, {section}", section=tr(section.title)), go
            )
    for setting in (*(setting for setting in SAMPLER if setting.name in shown), SEED):
        run = functools.partial(open_sampler, setting.name)
        yield Action(f"sampler {setting.name}", tr(setting.label), tr("Sampler"), run)
