"""The conversation's reducer, the words for its figures, what may be asked, and the settings' arithmetic."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from app.chat.words import figures_line, status_line
from app.settings.values import SAMPLER, SettingsValues
from app.state.chat import prompts
from app.state.chat.attachment import Attachment
from app.state.chat.conversation import Answer, ChatState, Turn, user_message
from app.state.chat.versions import Versions
from app.state.run.stats import RunFigures
from app.window.statusbar import parameters
from engine import (
    MINI,
    SIGHT,
    SUDOKU,
    CanvasCommitted,
    GenerationConfig,
    GenerationFinished,
    Reply,
    SafelightError,
    StepFinished,
)
from engine.catalog import traits
from engine.tasks import sudoku


def decode(tokens: Iterable[int]) -> Reply:
    return Reply("".join(chr(ord("a") + int(token) % 26) for token in tokens))


def answer(fake: Any, seed: int = 1) -> Answer:
    return Answer("Model", seed, fake.defaults)


def events_of(fake: Any, seed: int = 1, cancel: threading.Event | None = None) -> Iterator[Any]:
    return fake.generate(None, [1], fake.defaults, seed=seed, cancel=cancel or threading.Event())


def finish(chat: ChatState, fake: Any, seed: int = 1) -> None:
    """Runs the active answer to its end."""
    for event in events_of(fake, seed):
        chat.fold(event, decode)


def ask(chat: ChatState, fake: Any, prompt: str, seed: int = 1) -> Turn:
    turn = chat.ask(prompt, answer(fake, seed))
    finish(chat, fake, seed)
    return turn


@pytest.fixture
def chat() -> ChatState:
    return ChatState()


EMPTY = "The model ended without writing anything. Regenerate to try another seed."


def test_an_answer_waits_develops_and_is_done(chat: ChatState, fake: Any) -> None:
    turn = chat.ask("hello", answer(fake))
    assert turn.answer.status == "waiting"
    assert chat.active is turn.answer
    with pytest.raises(RuntimeError, match="being written"):
        chat.ask("two", answer(fake))
    seen = []
    for event in events_of(fake):
        chat.fold(event, decode)
        seen.append(turn.answer.status)
    assert seen == ["developing"] * (len(seen) - 1) + ["done"]
    assert chat.active is None
    assert turn.answer.text == decode(event.tokens).text
    assert turn.answer.notices() == []


def test_a_stopped_answer_keeps_its_draft(chat: ChatState, fake: Any) -> None:
    turn = chat.ask("hello", answer(fake))
    cancel = threading.Event()
    for event in events_of(fake, cancel=cancel):
        chat.fold(event, decode)
        if isinstance(event, StepFinished):
            draft = event.argmax_canvas[: fake.text_length]
            cancel.set()
    assert isinstance(event, GenerationFinished)
    assert turn.answer.status == "stopped"
    assert turn.answer.text == decode(draft).text
    assert status_line(turn.answer).startswith("Stopped after 1 step ·")


def test_an_empty_answer_and_a_step_cap_are_said(chat: ChatState, fake: Any) -> None:
    fake.text_length, fake.reason = 0, "step_cap"
    turn = ask(chat, fake, "hello")
    assert turn.answer.is_empty
    assert turn.answer.notices() == [EMPTY, "The model ran out of steps; this text is unfinished."]
    fake.blocks, fake.text_length = 2, 3
    assert ask(chat, fake, "again").answer.notices() == [
        "The model ran out of steps in 2 of 2 blocks; the text may be unfinished."
    ]


def test_an_edited_prompt_branches_and_both_branches_stay(chat: ChatState, fake: Any) -> None:
    one, two, three = (ask(chat, fake, text) for text in ("one", "two", "three"))
    other = chat.edit(two, "other", answer(fake))
    finish(chat, fake)
    assert chat.turns == [one, other]
    assert [turn.prompt for turn in chat.alternatives(other).items] == ["two", "other"]
    four = ask(chat, fake, "four")
    assert chat.turns == [one, other, four]
    chat.alternatives(other).show(0)
    assert chat.turns == [one, two, three]


def test_a_new_answer_leaves_what_followed_with_the_old_one(chat: ChatState, fake: Any) -> None:
    one, two = ask(chat, fake, "one"), ask(chat, fake, "two")
    chat.ask_again(one, answer(fake, 2))
    running = one.answer
    assert chat.turns == [one]
    one.answers.show(0)
    assert chat.turns == [one, two]
    assert chat.active is running  # it goes on while the other branch is shown
    finish(chat, fake, 2)
    assert (running.status, chat.active) == ("done", None)
    assert chat.messages(one) == ({"role": "user", "content": "one"},)


def test_the_system_prompt_and_files_are_reported_but_thinking_is_not(chat: ChatState, fake: Any) -> None:
    chat.system_prompt = "Be brief."
    turn = chat.ask("Sum it up.", answer(fake), (Attachment("a.md", "```\ncode\n```"),))
    finish(chat, fake)
    turn.answer.thinking = "secret"
    system, first, reply, last = chat.messages_with(user_message("More."))
    assert system == {"role": "system", "content": "Be brief."}
    assert first["content"] == "File: a.md\n\n````md\n```\ncode\n```\n````\n\nSum it up."
    assert reply == {"role": "assistant", "content": turn.answer.text}
    assert last["content"] == "More."


def test_removing_a_version_shows_its_neighbour_and_can_be_undone() -> None:
    versions = Versions(["a", "b", "c"], shown=1)
    place = versions.remove("b")
    assert (versions.current, versions.items) == ("c", ["a", "c"])
    versions.put_back("b", place)
    assert (versions.current, versions.items) == ("b", ["a", "b", "c"])
    versions.show(2)
    versions.remove("a")
    assert versions.current == "c"
    for item in ("b", "c"):
        versions.remove(item)
    assert versions.current is None


def test_figures_outlive_their_run_and_survive_damage(chat: ChatState, fake: Any) -> None:
    figures = ask(chat, fake, "one").answer.figures
    assert (figures.steps, figures.blocks) == (3, 1)
    assert RunFigures.from_json(figures.to_json()) == figures
    for damaged in ("", "{", "[1]", '{"steps": "many", "other": 1}'):
        assert RunFigures.from_json(damaged) == RunFigures()


def test_the_model_reads_the_shown_versions(chat: ChatState, fake: Any) -> None:
    one = ask(chat, fake, "one")
    chat.ask_again(one, answer(fake, 2))
    finish(chat, fake, 2)
    one.answers.show(0)
    fake.text_length = 0
    ask(chat, fake, "two")
    assert chat.messages(chat.ask("three", answer(fake))) == (
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": one.answer.text},
        {"role": "user", "content": "three"},
    )


def test_a_failure_before_the_run_gives_the_prompt_back(chat: ChatState, fake: Any) -> None:
    chat.ask("too long", answer(fake))
    turn = chat.fail("no", decode)
    assert turn.prompt == "too long"
    assert chat.turns == []
    assert chat.fail("no", decode) is None
    fine = ask(chat, fake, "fine")
    chat.ask_again(fine, answer(fake))
    assert chat.fail("no", decode) is None
    assert (len(fine.answers), fine.answer.status) == (1, "done")
    failed = chat.edit(fine, "worse", answer(fake))
    assert chat.fail("no", decode) is failed
    assert chat.turns == [fine]


def test_a_failure_inside_the_run_keeps_what_it_had(chat: ChatState, fake: Any) -> None:
    turn = chat.ask("hello", answer(fake))
    events = events_of(fake)
    for _ in range(3):
        chat.fold(next(events), decode)
    assert chat.fail("the card fell out", decode) is None
    assert turn.answer.status == "failed"
    assert turn.answer.notices() == ["the card fell out"]
    assert turn.answer.text


def test_the_status_line_has_every_figure_with_its_unit(chat: ChatState, fake: Any) -> None:
    turn = chat.ask("hello", answer(fake, 11))
    assert status_line(turn.answer) == "Reading the prompt"
    events = events_of(fake)
    chat.fold(next(events), decode)
    chat.fold(next(events), decode)
    assert status_line(turn.answer) == "Starting from noise"
    chat.fold(next(events), decode)
    assert status_line(turn.answer) == "Step 1, up to 48 · 1 of 8 sure"
    assert figures_line(turn.answer) == "Mean entropy 0.10 nats · Temperature 0.70 · Seed 11"
    for event in events:
        chat.fold(event, decode)
    assert status_line(turn.answer) == "3 steps, up to 48 · 0.1 s"
    assert figures_line(turn.answer) == "1.7 tokens per pass · 50 tokens a second · Seed 11"


@pytest.mark.parametrize(
    ("reason", "committed", "ended", "notices"),
    [
        ("eos", "converged", "3 steps, up to 48", []),
        ("length", "converged", "Cut off after 3 steps", ["cut off at the limit of new tokens"]),
        ("eos", "step_cap", "Ended after 3 steps", ["ran out of steps"]),
        ("length", "step_cap", "Cut off after 3 steps", ["limit of new tokens", "ran out of steps"]),
    ],
)
def test_how_an_answer_ended_is_said_once_and_kept(
    chat: ChatState, fake: Any, reason: str, committed: str, ended: str, notices: list[str]
) -> None:
    turn = chat.ask("hello", answer(fake))
    for event in events_of(fake):
        if isinstance(event, CanvasCommitted):
            event = dataclasses.replace(event, reason=committed)
        elif isinstance(event, GenerationFinished):
            event = dataclasses.replace(event, reason=reason)
        chat.fold(event, decode)
    again = Answer("a model", 0, fake.defaults, status="done", text="x")
    again.kept = RunFigures.from_json(turn.answer.figures.to_json())
    for found in (turn.answer, again):
        assert status_line(found) == f"{ended} · 0.1 s"
        assert len(found.notices()) == len(notices)
        assert all(part in said for part, said in zip(notices, found.notices(), strict=True))


@pytest.mark.parametrize("end", ["", "\n", "\nYou can"])
def test_an_answer_that_repeated_itself_says_so_also_when_it_is_stored(fake: Any, end: str) -> None:
    made = answer(fake)
    made.status, made.kept = "done", RunFigures(12, 1, 0, 1.5, 9.0, 40.0, is_cut=True)
    made.text = "Here.\n" + "\n".join(["You can find it here."] * 5) + end
    assert made.notices() == ["The answer repeated itself: it was ended when the same line stood there five times."]
    made.text = "It has no end"
    assert "cut off at the limit" in made.notices()[0]
    plain = Answer("a model", 0, fake.defaults, is_text=True, status="done", text="x")
    plain.kept = RunFigures(seconds=0.4, is_cut=True)  # a text without steps
    assert status_line(plain) == "Cut off · 0.4 s"


@pytest.mark.parametrize(
    ("number", "words"), [(7, "7 parameters"), (1_600_000, "1.6 M parameters"), (25_820_000_000, "25.8 B parameters")]
)
def test_parameter_counts(number: int, words: str) -> None:
    assert parameters(number) == words


def test_suggestions_fit_the_model() -> None:
    rng = random.Random(3)
    puzzles = prompts.suggestions(traits(SUDOKU), rng)
    for suggestion, size, givens in zip(puzzles, ("Medium", "Hard", "Easy"), (34, 27, 44), strict=True):
        assert suggestion.label == f"{size} puzzle, {givens} givens"
        board = sudoku.parse(suggestion.prompt)
        assert sudoku.givens(board) == givens
        assert len(sudoku.solutions(board)) == 1
    assert "What can you do?" in [suggestion.prompt for suggestion in prompts.suggestions(traits(MINI), rng)]
    assert prompts.suggestions(traits(SIGHT), rng) == []
    assert prompts.suggestions(traits("some-other-model"), rng)


def test_a_puzzle_is_brought_into_the_models_form() -> None:
    board = sudoku.generate(random.Random(1), 40, 40).board
    assert prompts.prepare(traits(SUDOKU), board.replace("0", ".")) == sudoku.to_prompt(board)
    assert prompts.prepare(traits(MINI), "  hello \n") == "hello"


@pytest.mark.parametrize(
    ("model", "text", "words"),
    [
        (MINI, " \n ", "Write something first"),
        (SUDOKU, "What is the sun?", "only reads Sudoku"),
        (SUDOKU, "123", "3 cells"),
        (SUDOKU, "11" + "0" * 79, "contradicts"),
    ],
)
def test_what_cannot_be_asked_is_explained(model: str, text: str, words: str) -> None:
    with pytest.raises(SafelightError, match=words):
        prompts.prepare(traits(model), text)


def test_every_setting_is_a_field_whose_default_lies_in_its_range() -> None:
    defaults = GenerationConfig()
    for setting in SAMPLER.values():
        value = getattr(defaults, setting.name)
        if value is None:
            assert setting.none
        else:
            assert setting.low <= value <= setting.high
            assert isinstance(value, int) == setting.is_whole
        assert setting.explanation.endswith(".")
        for end in (setting.low, setting.high):
            both = {"t_max": end, "t_min": end} if setting.name.startswith("t_") else {setting.name: end}
            defaults.replace(**{name: int(v) if setting.is_whole else v for name, v in both.items()})


def test_only_what_differs_is_kept() -> None:
    values, defaults = SettingsValues(), GenerationConfig()
    values.set("entropy_bound", 0.5, defaults)
    assert values.config(defaults).entropy_bound == 0.5
    values.set("entropy_bound", defaults.entropy_bound, defaults)
    assert values.overrides == {}
    assert values.config(defaults) == defaults


def test_a_fixed_seed_counts_up_for_each_version() -> None:
    values = SettingsValues(seed=5)
    assert [values.next_seed(version) for version in range(3)] == [5, 6, 7]
    values.reset()
    assert values.seed is None
    assert len({values.next_seed() for _ in range(8)}) > 1
