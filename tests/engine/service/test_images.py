"""Runs with pictures on a model of this machine that sees: prompts, reuse, forks, decisions, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import MINI, Event, Fork, GenerationConfig, GenerationFinished, Mark, PrefillFinished, SafelightError
from engine.decoding.protocols import ReadImages
from engine.events import SlotsRead
from engine.models.vision.reader import drained
from engine.service import (
    ChatRun,
    ForkRun,
    InfillRun,
    InfluenceRequest,
    LoadedModel,
    LoadRequest,
    LocalBackend,
    PassWanted,
    RunRequest,
    Scheduler,
    decision_requests,
    run_alone,
)
from engine.service.backend import required
from engine.service.description import count_tokens, describe
from engine.tasks.decisions.questions import YesNo
from engine.trace import Trace
from engine.trace.header import identify_model
from tests.engine.seeing import message, picture, seeing
from tests.engine.service.test_local import ended, events, loaded, trace_of
from tests.engine.service.test_scheduler import Ear
from tests.engine.tiny import VISION

QUICK = GenerationConfig(max_new_tokens=20, max_denoising_steps=2, eos_token_ids=(8,), image_tokens=70)
TALL, WIDE = picture(9, 40, 1), picture(120, 12, 2)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> LocalBackend:
    made = LocalBackend()
    loaded(made, str(seeing(tmp_path_factory.mktemp("seeing"), canvas_length=16)))
    return made


def chat(*messages: dict[str, Any], config: GenerationConfig = QUICK, **options: Any) -> RunRequest:
    return ChatRun(config, 5, messages, pictures=(TALL, WIDE), **options)


def run(backend: LocalBackend, request: RunRequest) -> tuple[Trace, list[Event]]:
    replies = list(run_alone(backend, request))
    assert replies[-1].message == ""  # type: ignore[union-attr]
    return trace_of(replies), events(replies)


def described_of(backend: LocalBackend) -> LoadedModel:
    model = required(backend._model)
    return describe(model, LoadRequest("x", "X"), identify_model(model, "x", "X"), backend.capabilities)


def text(found: list[Event]) -> list[int]:
    assert isinstance(found[-1], GenerationFinished)
    return [int(token) for token in found[-1].tokens]


def reused(found: list[Event]) -> tuple[int, int]:
    first = next(event for event in found if isinstance(event, PrefillFinished))
    return first.reused_tokens, first.prompt_tokens


def test_a_second_turn_reads_neither_picture_nor_text_again(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked = required(backend._model), message("what?", TALL)
    assert backend.capabilities.images
    trace, first = run(backend, chat(asked))
    whole = len(trace.header.prompt_ids)
    assert reused(first) == (0, whole)
    assert whole == count_tokens(model, [asked], image_tokens=70) < count_tokens(model, [asked], image_tokens=140)
    assert trace.pictures == (TALL, WIDE)
    described = described_of(backend)
    assert described.image_cost is not None
    text_alone = count_tokens(model, [{"role": "user", "content": "what?"}])
    assert whole == text_alone + described.image_cost(TALL.width, TALL.height, 70)
    monkeypatch.setattr("engine.models.vision.reader.patches", None)  # nothing is read by the tower any more
    again = run(backend, chat(asked))[1]
    assert reused(again)[0] == whole
    assert text(again) == text(first)
    more = run(backend, chat(asked, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}))[1]
    assert 0 < reused(more)[0] <= whole
    monkeypatch.undo()
    other = message("what?", dataclasses.replace(WIDE))
    assert reused(run(backend, chat(other))[1])[0] < 20  # up to where the picture begins
    assert model.vision is not None
    rows = [drained(model.vision.reading(TALL, budget)) for budget in (70, 140)]
    assert len(rows[0]) < len(rows[1])
    bigger = run(backend, chat(asked, config=QUICK.replace(image_tokens=140)))[1]
    assert reused(bigger)[0] < 20


def test_stop_takes_effect_between_layers_of_the_tower(tmp_path: Path) -> None:
    deep = LocalBackend()
    loaded(deep, str(seeing(tmp_path, canvas_length=16, vision=dataclasses.replace(VISION, num_hidden_layers=5))))
    request, passes, replies = chat(message("what?", TALL)), list[Any](), list[Any]()
    for item in deep.begin(request):
        if not isinstance(item, PassWanted):
            replies.append(item)
            continue
        passes.append(item.what)
        deep.perform([item])
        if len(passes) == 2:
            request.cancel.set()
    assert [type(one) for one in passes] == [ReadImages, ReadImages]
    (end,) = events(replies)
    assert isinstance(end, GenerationFinished)
    assert (end.reason, end.blocks, trace_of(replies).failure) == ("cancelled", 0, "")


def test_forks_infills_and_influence_see_the_pictures(backend: LocalBackend) -> None:
    source, found = run(backend, chat(message("what?", WIDE)))
    again = run(backend, ForkRun.of(source, (Fork(0, 1),)))[1]
    assert text(again) == text(found)
    stopped = ForkRun.of(source, (Fork(1, 1),))
    stopped.cancel.set()
    end = run(backend, stopped)[1][-1]
    assert isinstance(end, GenerationFinished)
    assert (end.reason, end.blocks, len(end.tokens)) == ("cancelled", 1, len(source.committed[0].tokens))
    request = InfillRun.of(source, (Mark(0, 1, 3),), seed=2)
    assert request.pictures == source.pictures
    assert run(backend, request)[1]
    canvas = source.committed[0].tokens
    asked = InfluenceRequest(source, 0, tuple(canvas.tolist()), 2, 30, 1.0)
    measured = backend.measure(asked)
    assert measured.message == ""
    without = dataclasses.replace(source.header, messages=({"role": "user", "content": "what?"},))
    blind = dataclasses.replace(asked, trace=Trace(header=without, piece=str, is_special=bool, decode=str))
    for event in found:
        blind.trace.append(event)  # type: ignore[attr-defined]
    assert measured.influence is not None
    there = backend.measure(blind).influence
    assert there is not None
    assert not np.array_equal(measured.influence.kl, there.kl)


def test_a_picture_may_be_all_that_is_decided_about(backend: LocalBackend) -> None:
    described = described_of(backend)
    questions = (YesNo("Is it red?"), YesNo("Is it high?"))
    found = []
    for shown in (TALL, WIDE):
        for is_joint in (False, True):
            for request in decision_requests(described, "", questions, is_joint=is_joint, pictures=(shown,)):
                assert request.decision is not None
                trace, events_of_it = run(backend, request)
                (said,) = trace.header.messages
                assert said["content"].startswith("\n\nQuestion")
                found += [event.logprobs[0].tolist() for event in events_of_it if isinstance(event, SlotsRead)]
    assert len(set(map(str, found))) == len(found) == 6
    canvas = tuple(trace.committed[0].tokens.tolist())
    measured = backend.measure(InfluenceRequest(trace, 0, canvas, 2, 30, 1.0))
    assert measured.message == ""
    with pytest.raises(SafelightError, match="give a text or an image"):
        decision_requests(described, " ", questions)


def test_what_does_not_fit_or_cannot_be_seen_is_said(tmp_path: Path) -> None:
    small = LocalBackend()
    loaded(small, str(seeing(tmp_path, canvas_length=16, max_position_embeddings=100)))
    sent = chat(message("what?", TALL, WIDE), config=QUICK.replace(image_tokens=1120), reserve=16)
    assert "Shorten the prompt, or remove a file or an image." in ended(small, sent).message
    # An old turn goes with its picture.
    turns = (message("old", WIDE), {"role": "assistant", "content": "a"}, message("new", TALL))
    trace, _ = run(small, chat(*turns, reserve=16))
    assert [each["content"] for each in trace.header.messages] == ["new"]

    blind = LocalBackend()
    loaded(blind, MINI)
    assert not blind.capabilities.images
    assert "cannot see images; remove them" in ended(blind, chat(message("a", TALL))).message
    with pytest.raises(SafelightError, match="a picture of this conversation is missing"):
        ChatRun(QUICK, 0, (message("a", picture(5, 5)),), pictures=(TALL,))


def test_a_tower_that_fails_among_other_runs_ends_its_own_alone(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> Any:
        raise SafelightError("the picture is damaged")

    monkeypatch.setattr("engine.models.vision.reader.patches", damaged)
    sent = dataclasses.replace(chat(), messages=(message("a", new := picture(8, 8, 7)),), pictures=(new,))
    asked = [(sent, Ear()), (chat({"role": "user", "content": "a"}), Ear())]
    scheduler = Scheduler(backend)
    with scheduler._changed:  # both before the first begins
        for request, ear in asked:
            scheduler.run(request, ear)
    assert [ear.has_ended.wait(20) for _, ear in asked] == [True, True]
    assert [ear.end.message for _, ear in asked] == ["the picture is damaged", ""]
    assert scheduler.close()
