"""The commands on a turn, which its buttons call without going through the views around them. Knows no Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.state.chat.calls import Decision, ToolCall, ToolRound
from app.state.chat.conversation import Turn
from app.state.chat.rewriting import Rewriting


@dataclass
class TurnCommands:
    """Carries out what a person asks of a turn. The controller owns it."""

    stop: Callable[[], object]
    again: Callable[[Turn], object]
    others: Callable[[Turn], Sequence[str]]  # ids of models that could answer it instead
    ask_other: Callable[[Turn, str], object]  # one of these, by its id
    edit: Callable[[Turn, str], object]
    can_change: Callable[[Turn], bool]  # a model is here that can write parts of its answer again
    rewrite: Callable[[Turn, Rewriting], object]
    put: Callable[[Turn, str], object]  # a text as the newest version of its answer
    say: Callable[[str], object]  # why something cannot be done
    delete: Callable[[Turn], object]
    delete_answer: Callable[[Turn, int], object]  # the index of a version
    decide: Callable[[ToolCall, Decision], object]  # about a call that waits for leave
    inspect_call: Callable[[ToolRound], object]  # the run that made calls
    choose_answer: Callable[[Turn, int], object]
    choose_prompt: Callable[[Turn, int], object]
    inspect: Callable[[Turn], object]
    replay: Callable[[Turn], object]  # reads the run of its answer
    pick: Callable[[str], object]  # sends a suggested prompt
    choose_pace: Callable[[str], object]  # a value of the declared setting
