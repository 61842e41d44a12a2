"""The small models as one: the rule, and a backend of real parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.catalog import BASE, GAPS, MINI, SIGHT, SMALL, SUDOKU, TALK, PackagedModel
from engine.forks import Fork
from engine.pictures import Picture
from engine.service import (
    ChatRun,
    DecisionRun,
    ForkRun,
    LoadedModel,
    LoadRequest,
    ModelLoaded,
    PassWanted,
    RunEnded,
    RunRequest,
    RunStarted,
    run_alone,
)
from engine.service.small import SmallBackend, part_for, prepared, puzzle_in, worded
from engine.tasks.decisions.questions import Decision, YesNo
from engine.tasks.drawings import picture_of
from engine.text.message import Message, message_of
from engine.tools.example_tools import TOOLS as EXAMPLE_TOOLS
from tests.drawn import DRAWN
from tests.loaded import ReadyBackend

PUZZLE = "003100064080000302000500087070005000000009400805000000004000030050007000700801096"
LINES = "\n".join(PUZZLE[row : row + 9].replace("0", ".") for row in range(0, 81, 9))
SOLVED = "523178964187694352496523187279465813361789425845312679914256738658937241732841596"
QUESTION, SCENE = next(iter(DRAWN.items()))


def said(*texts: str) -> list[Message]:
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackagedModel, "is_here", True)


@pytest.mark.usefixtures("talk")
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Write a short poem about the sea.", TALK.id),
        ("What is the capital of France?", TALK.id),
        ("def fib(n):", TALK.id),
        ("", TALK.id),
        ("hi", MINI),
        ("can you solve sudoku", MINI),
        ("what's 12+7?", MINI),
        ("Could you please reverse the word robot", MINI),
        ("  COUNT FROM 3  TO 9", MINI),
        (PUZZLE, SUDOKU),
        (f"Solve this Sudoku:\n{LINES}", SUDOKU),
        (f"File: sudoku.txt\n\n```\n{LINES}\n```\n\n", SUDOKU),
        ("33" + PUZZLE[2:], TALK.id),  # contradicts itself
        ("Monday, [[...]], Wednesday.", GAPS),
    ],
)
def test_a_prompt_is_for_the_part_that_was_made_for_it(text: str, part: str) -> None:
    assert part_for(said(text)) == part
    assert part_for(said("Spell banana.", "b-a-n-a-n-a", text)) == part


def test_questions_for_tools_and_about_pictures_have_their_parts() -> None:
    clock = said("What time is it in Tokyo?")
    assert part_for(clock, ["clock"]) == MINI
    assert part_for([*clock, {"role": "tool", "content": "12:00"}], ["clock"]) == MINI
    assert part_for(said("What is the capital of France?")) == MINI  # where Talk is not installed
    drawing = message_of(QUESTION, [picture_of(SCENE)])
    assert part_for([drawing]) == SIGHT
    assert part_for([drawing, *said("", "2")[1:], *said("what colour is  the circle")]) == SIGHT
    assert part_for([drawing, *said("", "2")[1:], *said("hi")]) == MINI


@pytest.mark.usefixtures("talk")
def test_each_part_reads_its_own_wording() -> None:
    asked = said("Spell banana.", "b-a-n-a-n-a", "Hello there, who was Ada?", "A poet's daughter.", "please spell  fig")
    assert [one["content"] for one in worded(TALK.id, asked)] == [
        *(one["content"] for one in asked[2:4]),
        "please spell  fig",
    ]
    assert [worded(model, asked)[-1]["content"] for model in (MINI, MINI, BASE)] == ["Spell fig."] * 3
    assert puzzle_in(worded(SUDOKU, said(f"Solve this:\n{LINES}"))[0]["content"]) == PUZZLE
    assert worded("a folder", asked) == tuple(asked)


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[SmallBackend, LoadedModel]]:
    backend, replies = SmallBackend(ReadyBackend()), list[Any]()
    backend.load(LoadRequest(SMALL, "Small models"), replies.append)
    assert isinstance(replies[-1], ModelLoaded)
    yield backend, replies[-1].model
    backend.unload()


def answered(small: tuple[SmallBackend, LoadedModel], request: RunRequest) -> tuple[str, str]:
    """Returns the part that answered, and the text."""
    (trace,) = [reply.trace for reply in run_alone(small[0], request) if isinstance(reply, RunStarted)]
    return trace.header.model.name, trace.reply().text.replace("\n", " ").strip()


@pytest.mark.parametrize(
    ("text", "part", "answer"),
    [
        ("what's 12+7?", MINI, "19"),
        ("47+5 =", MINI, "52"),
        ("Sort 9 4 7 2 6.", MINI, "2 4 6 7 9"),
        ("Monday, [[...]], Wednesday.", GAPS, "Monday, Tuesday, Wednesday."),
        (LINES, SUDOKU, " ".join(SOLVED[row : row + 9] for row in range(0, 81, 9))),
    ],
)
def test_parts_answer_as_if_they_were_alone(
    small: tuple[SmallBackend, LoadedModel], text: str, part: str, answer: str
) -> None:
    request = ChatRun(small[1].defaults.replace(max_denoising_steps=96), 0, tuple(said(text)))
    chosen, asked = prepared(small[1], request)
    assert (chosen.path_or_id, asked.config.max_denoising_steps) == (part, 96)
    again, same = prepared(small[1], asked)
    assert (again, same.messages, same.config, same.outline) == (chosen, asked.messages, asked.config, asked.outline)
    assert answered(small, request) == answered(small, asked) == (part, answer)


def test_calls_pictures_and_decisions(small: tuple[SmallBackend, LoadedModel]) -> None:
    config = small[1].defaults
    tools = tuple(tool.declaration for tool in EXAMPLE_TOOLS.values())
    clock = ChatRun(config, 0, tuple(said("What time is it in Tokyo?")), tools=tools)
    assert answered(small, clock)[0] == MINI
    picture: Picture = picture_of(SCENE)
    seen = ChatRun(config, 0, (message_of(QUESTION, [picture]),), pictures=(picture,))
    assert answered(small, seen)[0] == SIGHT
    decision = Decision("The number is 58.", (YesNo("Is the number even?"),))
    assert answered(small, DecisionRun(config, 0, decision))[0] == MINI


def test_runs_of_several_parts_go_on_together(small: tuple[SmallBackend, LoadedModel]) -> None:
    requests = [ChatRun(small[1].defaults, 0, tuple(said(text))) for text in ("Spell fig.", LINES)]
    runs = [small[0].begin(request) for request in requests]
    assert small[0].admits(requests[1], requests[:1])
    ended, wanted = list[str](), dict[int, PassWanted]()
    while len(ended) < len(runs):
        for place, run in enumerate(runs):
            while place not in wanted and (item := next(run, None)) is not None:
                if isinstance(item, PassWanted):
                    wanted[place] = item
                elif isinstance(item, RunEnded):
                    ended.append(item.message)
        small[0].perform(list(wanted.values()))
        wanted = {place: item for place, item in wanted.items() if not item.is_done}
    assert ended == ["", ""]


def test_a_run_of_a_model_that_is_no_part_is_not_gone_on_from(small: tuple[SmallBackend, LoadedModel]) -> None:
    alone, replies = ReadyBackend(), list[Any]()
    alone.load(LoadRequest(BASE, "Base"), replies.append)
    request = ChatRun(replies[-1].model.defaults, 0, tuple(said("Spell fig.")))
    (trace,) = [reply.trace for reply in run_alone(alone, request) if isinstance(reply, RunStarted)]
    fork = ForkRun.of(trace, (Fork(0, 0),))
    assert small[0].admits(fork, [request])
    (end,) = run_alone(small[0], fork)
    assert isinstance(end, RunEnded)
    assert end.message == "the model of this run is not loaded; load it first"
