"""Everything that one Safelight sends another comes back bit for bit; what is not as documented is one sentence."""

from __future__ import annotations

import dataclasses
import json
import random
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from engine import GenerationConfig, SafelightError, SlotsRead, Trace
from engine.catalog import Traits
from engine.files import parse_json
from engine.pictures import ImageCost
from engine.service import Capabilities, ChatRun, DecisionRun, PuzzleRun, RunAdvanced, RunEnded, RunRequest, RunStarted
from engine.service.wire import (
    IDLE,
    Ended,
    ReplyReader,
    ReplyWriter,
    model_from_json,
    model_to_json,
    request_from_json,
    request_to_json,
)
from engine.tasks.decisions.layout import Slot
from engine.tasks.decisions.questions import Decision, OneOf, Option, Score, YesNo
from engine.text.message import image_of
from engine.text.output_format import OutputFormat
from engine.trace.codec import Codec
from engine.trace.format import PayloadError
from tests.engine.drawn import picture
from tests.engine.traces import bits, header, made_up

ROUNDS = 60
FORMATS = (
    OutputFormat("json_schema", {"type": "object", "properties": {"é": {"enum": [1, None]}}}),
    OutputFormat("json_object"),
    OutputFormat("regex", pattern="[a-z]+\\d?"),
    OutputFormat("choices", choices=("yes", "nø")),
    OutputFormat("tool_calls", tools=({"name": "f", "parameters": {"type": "object"}},)),
)
QUESTIONS = (
    YesNo("Is it late?", "after «ten»", name="late"),
    OneOf("Where?", (Option("home"), Option("away", "not at home")), "where"),
    Score("How loud?", (Option("low"), Option("mid", "as talk"), Option("high")), "loud"),
)
DECISIONS = (
    Decision("It is ten.\n", QUESTIONS[:1], repeats=3),
    Decision("It is 🦊 o'clock.", QUESTIONS, "Be strict.", is_joint=True, first=4),
)


SHOWN = {one.digest: one for one in (picture("red", 6, 2), picture("blue", 3, 3))}


def sent(value: Any) -> Any:
    """Returns what arrives of it."""
    return parse_json(json.dumps(value), "the body")


def some_request(draw: random.Random) -> RunRequest:
    adapter = draw.choice((None, "", "sudoku-lora"))
    config = GenerationConfig(
        max_new_tokens=draw.randint(1, 9999),
        t_max=draw.choice((1, 0.1 + draw.random())),
        t_min=0.1,
        eos_token_ids=tuple(draw.sample(range(100), draw.randint(0, 3))),
        pinned=draw.choice(((), ((0, 4), (3, 2)))),
        banned_tokens=draw.choice(((), (7,))),
        canvas_length=draw.choice((None, 16)),
    )
    seed = draw.randint(0, 2**63 - 1)
    wanted = draw.choice((None, *FORMATS))
    match draw.choice(("chat", "puzzle", "decision")):
        case "decision":
            shown = tuple(draw.sample(list(SHOWN.values()), draw.randint(0, 2)))
            decision = draw.choice(DECISIONS)
            return DecisionRun(config, seed, decision, pictures=shown, adapter=adapter)
        case kind:
            call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": [1, None, 0.5]}}}
            shown = tuple(draw.sample(list(SHOWN.values()), draw.randint(0, 2)))
            images = {"images": tuple(map(image_of, shown))} if shown else {}
            messages: tuple[dict[str, Any], ...] = (
                {"role": "user", "content": draw.choice(("", "Hello\u2028\0", "x" * 999)), **images},
                {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "so"},
                {"role": "tool", "content": "2", "name": "f", "tool_call_id": "1"},
            )
            tools = ({"type": "function", "function": {"name": "f", "parameters": {}}},)
            return (PuzzleRun if kind == "puzzle" else ChatRun)(
                config,
                seed,
                messages[: draw.randint(1, 3)],
                think=draw.random() < 0.5,
                reserve=draw.randint(0, 99),
                tools=draw.choice(((), tools)),
                output_format=None if kind == "puzzle" else wanted,
                adapter=adapter,
                pictures=shown,
            )


def facts(request: RunRequest) -> dict[str, Any]:
    """All of a request that travels, with its types."""
    found = {"kind": type(request)} | vars(request)
    for name in ("run_id", "cancel", "keep"):
        del found[name]
    return found | {"as written": repr(request.config)}


def test_a_request_comes_back_bit_for_bit() -> None:
    draw = random.Random(0)
    for _ in range(2 * ROUNDS):
        request = some_request(draw)
        found = request_from_json(sent(request_to_json(request)), SHOWN.get)
        assert facts(found) == facts(request)
        assert found.run_id != request.run_id


def test_whatever_is_done_to_a_request_is_one_sentence_or_another_request() -> None:
    draw = random.Random(1)
    refusals: list[str] = []
    values: list[Any] = [None, -1, 2**70, 1.5, "x", [], {}, [[]], True, "9" * 5000, {"kind": "chat"}]
    for _ in range(3 * ROUNDS):
        raw = sent(request_to_json(some_request(draw)))
        place, keys = raw, []
        while True:  # go down to some place of it
            key = draw.choice(list(place) if isinstance(place, dict) else range(len(place)))
            keys.append(key)
            inner = place[key]
            if not isinstance(inner, dict | list) or not inner or draw.random() < 0.4:
                break
            place = inner
        place[key] = draw.choice(values)
        if isinstance(place, dict) and draw.random() < 0.3:
            place["unheard of"] = place.pop(key)
        try:
            request_to_json(request_from_json(raw, SHOWN.get))
        except SafelightError as error:
            refusals.append(str(error))
    assert len(refusals) > ROUNDS / 2
    assert all("\n" not in sentence and len(sentence) < 800 for sentence in refusals)


CHAT = {"kind": "chat", "messages": [{"role": "user", "content": "x"}], "config": {}, "seed": 0}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], "a run's kind must be one of"),
        ({**CHAT, "messages": []}, "1 to 4,096 entries"),
        ({**CHAT, "seed": -1}, "seed must be"),
        ({**CHAT, "text": "x"}, "field 'text' that is not"),
        ({**CHAT, "config": {"heat": 1}}, "settings 'heat' are not known"),
        ({"kind": "decision", "decision": {"state": ""}, "config": {}, "seed": 0}, "lacks the field 'questions'"),
        ({**CHAT, "output_format": {"kind": "xml"}}, "kind of output_format must be"),
        ({**CHAT, "messages": [{"role": "user", "content": [1]}]}, "must be a text"),
    ],
)
def test_what_is_wrong_is_named(raw: Any, says: str) -> None:
    with pytest.raises(SafelightError, match=says):
        request_from_json(raw, SHOWN.get)


def stream(top: int | None = 3, blocks: int = 2, message: str = "") -> tuple[Trace, bytes]:
    trace = Trace(header=header())
    writer = ReplyWriter()
    parts = [writer.write(RunStarted("1", trace))]
    for event in made_up(top=top, blocks=blocks):
        trace.append(event)
        parts += [writer.write(RunAdvanced("1", event)), IDLE]
    return trace, b"".join((*parts, writer.write(RunEnded("1", message, "Traceback: /home/me"))))


@pytest.mark.parametrize("top", [None, 0, 3])
def test_replies_come_back_bit_for_bit_in_pieces_of_any_size(top: int | None) -> None:
    trace, sent_bytes = stream(top)
    draw = random.Random(2)
    for most in (1, 7, 300, 10**6):
        reader, found, place = ReplyReader(), [], 0
        while place < len(sent_bytes):
            size = draw.randint(1, most)
            found += reader.feed(sent_bytes[place : place + size])
            place += size
        assert reader.is_over
        assert found[0] == trace.header
        assert found[-1] == Ended()
        assert [bits(event) for event in found[1:-1]] == [bits(event) for event in trace.events]


def test_a_read_must_go_with_the_questions() -> None:
    """Options that were not asked for do not arrive."""
    raw = header()
    slots = tuple(Slot(place, tuple((n,) for n in range(2))) for place in range(2))
    asked = dataclasses.replace(raw, decision=Decision("-", QUESTIONS[:2], is_joint=True), slots=slots)
    read = SlotsRead(0, tuple(np.array([-1.5, -0.25], np.float32) for _ in range(2)), (True, False))
    more = dataclasses.replace(read, logprobs=(read.logprobs[0], np.zeros(3, np.float32)))
    kind, payload, *place = Codec.for_header(asked).encode(read)
    assert bits(Codec.for_header(asked).decode(kind, payload, *place)) == bits(read)
    for header_of, event in ((asked, more), (raw, read)):
        kind, payload, *place = Codec.for_header(header_of).encode(event)
        with pytest.raises(PayloadError, match="does not match the questions"):
            Codec.for_header(header_of).decode(kind, payload, *place)


def test_where_the_model_lies_and_tracebacks_stay_on_the_machine() -> None:
    own = header()
    own = dataclasses.replace(own, model=dataclasses.replace(own.model, path="/home/me/models/x"))
    writer = ReplyWriter()
    first = writer.write(RunStarted("1", Trace(header=own)))
    assert ReplyReader().feed(first) == [dataclasses.replace(own, model=dataclasses.replace(own.model, path=""))]
    last = ReplyReader().feed(writer.write(RunEnded("1", "It fell out.", "Traceback: /home/me")))
    assert last == [Ended("It fell out.")]


def test_a_damaged_stream_is_refused_or_seen_to_be_broken_off() -> None:
    _, whole = stream()
    draw = random.Random(3)
    for _ in range(ROUNDS):
        spoilt = bytearray(whole)
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
        reader = ReplyReader()
        with suppress(SafelightError):  # a length that was spoilt waits for more
            reader.feed(bytes(spoilt))
        assert not reader.is_over
        cut = ReplyReader()
        cut.feed(whole[: draw.randrange(len(whole))])
        assert not cut.is_over


def test_events_in_another_order_are_refused() -> None:
    writer = ReplyWriter()
    first = writer.write(RunStarted("1", Trace(header=header())))
    events = [writer.write(RunAdvanced("1", event)) for event in made_up()]
    for wrong in ([events[2]], [events[1], events[3]], events[:1] * 2, [first], [writer.write(RunEnded("1")), IDLE]):
        with pytest.raises(SafelightError, match="cannot be read"):
            ReplyReader().feed(b"".join((first, *wrong)))
    with pytest.raises(SafelightError, match="out of its order"):
        ReplyReader().feed(events[0])


def some_model() -> dict[str, Any]:
    return {
        "dialect": 1,
        "title": "Small",
        "name": "small",
        "device": "cpu",
        "fingerprint": "ab",
        "kernels": "",
        "device_reason": "no GPU",
        "adapter_title": "",
        "adapter": None,
        "reads_system": True,
        "reads_history": False,
        "reads_tools": True,
        "defaults": dataclasses.asdict(GenerationConfig(eos_token_ids=(1, 2), pinned=((1, 2),))),
        "canvas_length": 64,
        "parameter_count": 10**9,
        "load_seconds": 0.1 + 0.2,
        "vocab_size": 300,
        "context": 4096,
        "threads": 2,
        "capabilities": dataclasses.asdict(Capabilities(steps=True, forks=True, parallel_runs=4)),
        "traits": dataclasses.asdict(Traits("sudoku", "puzzles", 10)),
        "decoders": ["autoregressive", "block_diffusion"],
        "image_tile": None,
    }


def test_a_model_comes_back_with_functions_that_know_no_tokenizer() -> None:
    raw = sent(some_model() | {"of a newer version": [1]})
    model = model_from_json(raw, "http://there#small")
    assert sent(model_to_json(model)) == sent(some_model())
    assert model.path_or_id == "http://there#small"
    assert model.piece(7) == "<7>"
    assert model.decode([1, 2]).text == "<1><2>"
    with pytest.raises(SafelightError, match="has not been fetched"):
        model.encode("x")
    raw["capabilities"]["images"] = True
    assert not model_from_json(raw, "").capabilities.images  # of an older version, which takes no pictures
    seeing = model_from_json(raw | {"image_tile": 48}, "")
    assert (seeing.capabilities.images, seeing.image_cost) == (True, ImageCost(48))
    raw["dialect"] = 2
    with pytest.raises(SafelightError, match="update both"):
        model_from_json(raw, "")
